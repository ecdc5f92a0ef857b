//! Which documents have which words, and where: gathered as they come, and turned into lists at once.
//!
//! Tantivy keeps a list for each word from the first document on, and each word of each text goes to the end of one of
//! them, wherever that lies in memory. Here a text is kept as the numbers of its names, one after the other; when the
//! segment is written, it is counted how long each list is, and then each word is put where it belongs.

use tantivy::postings::FieldSerializer;
use tantivy::schema::IndexRecordOption;

use super::lexicon::{Lexicon, Texts};

/// Bits of the place of a word in its text, beside the number of the document. A chunk has fewer words than places.
const PLACE_BITS: u32 = 11;
const _: () = assert!(crate::code::parse::CHUNK_BYTES_MAX < 1 << PLACE_BITS);
/// Documents that can be told apart.
pub(super) const DOCS_MAX: usize = 1 << (u32::BITS - PLACE_BITS);

/// A document and a place in it.
#[derive(Clone, Copy, Default)]
struct At(u32);

impl At {
    fn new(doc: u32, place: u32) -> At {
        At(doc << PLACE_BITS | place.min((1 << PLACE_BITS) - 1))
    }

    fn doc(self) -> u32 {
        self.0 >> PLACE_BITS
    }

    fn place(self) -> u32 {
        self.0 & ((1 << PLACE_BITS) - 1)
    }
}

/// What stands in one field of the documents, in their order.
#[derive(Default)]
pub(super) struct Log {
    /// The names of all documents.
    names: Vec<u32>,
    /// The documents that have any, and where their names end.
    ends: Vec<(u32, usize)>,
    /// All words.
    words: u64,
}

impl Log {
    /// Adds the text of a document, and answers how many words it has. Documents come in order.
    pub(super) fn add(&mut self, doc: u32, text: &str, lexicon: &mut Lexicon) -> u32 {
        self.names.extend(lexicon.names(text));
        self.end(doc, |name| lexicon.of(name).0.len())
    }

    /// Adds names that are not cut, by their numbers.
    pub(super) fn add_whole(&mut self, doc: u32, names: impl Iterator<Item = u32>) {
        self.names.extend(names);
        self.end(doc, |_| 1);
    }

    fn end(&mut self, doc: u32, words: impl Fn(u32) -> usize) -> u32 {
        let from = self.ends.last().map_or(0, |(_, end)| *end);
        let count: usize = self.names[from..].iter().map(|name| words(*name)).sum();
        self.ends.push((doc, self.names.len()));
        self.words += count as u64;
        u32::try_from(count).expect("a chunk is small")
    }

    /// All words of all documents.
    pub(super) fn words(&self) -> u64 {
        self.words
    }

    /// Bytes that it takes, and will take when it is sorted.
    pub(super) fn bytes(&self) -> usize {
        self.names.len() * 4 + self.words as usize * size_of::<At>()
    }

    /// Calls `each` with every document and the numbers of its names.
    fn each(&self, mut each: impl FnMut(u32, &[u32])) {
        let mut from = 0;
        for (doc, end) in &self.ends {
            each(*doc, &self.names[from..*end]);
            from = *end;
        }
    }

    /// The lists of the words that names are cut into.
    pub(super) fn cut(&self, lexicon: &Lexicon) -> Lists {
        let mut lists = Lists::new(lexicon.words.len());
        for name in &self.names {
            for word in lexicon.of(*name).0 {
                lists.count(word.number());
            }
        }
        lists.begin();
        self.each(|doc, names| {
            let mut place = 0;
            for name in names {
                let (words, places) = lexicon.of(*name);
                for word in words {
                    lists.push(word.number(), At::new(doc, place + word.place()));
                }
                place += places;
            }
        });
        lists
    }

    /// The lists of names that are not cut.
    pub(super) fn whole(&self, names: &Texts) -> Lists {
        let mut lists = Lists::new(names.len());
        self.names.iter().for_each(|name| lists.count(*name));
        lists.begin();
        self.each(|doc, names| {
            for name in names {
                lists.push(*name, At::new(doc, 0));
            }
        });
        lists
    }
}

/// For each word, where it stands. All are counted first, then all are put there in the order of the documents.
pub(super) struct Lists {
    /// How many a list has; then where its next one is put, and in the end where it ends.
    ends: Vec<u32>,
    all: Vec<At>,
}

impl Lists {
    fn new(words: usize) -> Lists {
        Lists {
            ends: vec![0; words],
            all: Vec::new(),
        }
    }

    fn count(&mut self, word: u32) {
        self.ends[word as usize] += 1;
    }

    fn begin(&mut self) {
        let mut sum = 0;
        for end in &mut self.ends {
            sum += std::mem::replace(end, sum);
        }
        self.all = vec![At::default(); sum as usize];
    }

    fn push(&mut self, word: u32, at: At) {
        let next = &mut self.ends[word as usize];
        self.all[*next as usize] = at;
        *next += 1;
    }

    fn of(&self, word: u32) -> &[At] {
        let word = word as usize;
        let from = word.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[from as usize..self.ends[word] as usize]
    }

    /// Writes all lists, by words in `order`.
    pub(super) fn write(
        &self,
        texts: &Texts,
        order: &[u32],
        option: IndexRecordOption,
        out: &mut FieldSerializer<'_>,
    ) -> std::io::Result<()> {
        let mut steps = Vec::new();
        for word in order {
            let documents = self.of(*word).chunk_by(|one, two| one.doc() == two.doc());
            let count = u32::try_from(documents.clone().count()).expect("documents are counted");
            if count == 0 {
                continue;
            }
            out.new_term(texts.text(*word), count, option.has_freq())?;
            for places in documents {
                steps.clear();
                if option.has_positions() {
                    let mut last = 0;
                    steps.extend(places.iter().map(|at| {
                        let before = std::mem::replace(&mut last, at.place());
                        at.place() - before
                    }));
                }
                let times = match option.has_freq() {
                    true => u32::try_from(places.len()).expect("a chunk is small"),
                    false => 0,
                };
                out.write_doc(places[0].doc(), times, &steps);
            }
            out.close_term()?;
        }
        Ok(())
    }
}
