//! The order of candidates, by what no single document shows: words that stand together, the file's name, other
//! candidates of the same file.

use std::collections::HashMap;

use tantivy::{DocSet, Term};

use super::plan::{Class, Plan, Wanted};
use super::table;
use crate::code::api::{Result, ScoreParts};
use crate::code::index::{Found, Scored, View};
use crate::code::parse::words::{Sieve, Words};

/// A candidate with the parts of its score.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    /// Which of the views it is of.
    pub view: usize,
    /// The document.
    pub found: Found,
    /// The score that orders.
    pub score: f32,
    /// How it came about.
    pub parts: ScoreParts,
}

/// Puts candidates in order, best first.
///
/// # Errors
///
/// When the index cannot be read.
pub(crate) fn order(plan: &Plan, views: &[&View], mut ranked: Vec<Ranked>) -> Result<Vec<Ranked>> {
    for (at, view) in views.iter().enumerate() {
        proximity(plan, view, at, &mut ranked)?;
    }
    let mut in_file: HashMap<(usize, u32), u32> = HashMap::new();
    for one in &ranked {
        *in_file.entry((one.view, one.found.entry)).or_default() += 1;
    }
    let mut paths = Paths::of(plan, views);
    for one in &mut ranked {
        one.parts.path = paths.fit(one.view, one.found.entry);
        let others = in_file[&(one.view, one.found.entry)] - 1;
        let coherence = (others as f32 * table::COHERENCE).min(table::COHERENCE_MAX);
        one.score *= 1.0 + one.parts.proximity + one.parts.path + coherence;
    }
    sort(views, &mut ranked);
    saturate(&mut ranked);
    sort(views, &mut ranked);
    Ok(ranked)
}

/// Rounds scores to four digits, and sorts by them; then by path and place, so that the order does not hang on how
/// sums were made.
pub(crate) fn sort(views: &[&View], ranked: &mut [Ranked]) {
    let coarse = |score: f32| {
        let size = 10f32.powi(3 - score.abs().max(f32::MIN_POSITIVE).log10().floor() as i32);
        (score * size).round() / size
    };
    for one in ranked.iter_mut() {
        one.score = coarse(one.score);
    }
    ranked.sort_by(|a, b| {
        let path = |one: &Ranked| &views[one.view].entries[one.found.entry as usize].path;
        b.score
            .total_cmp(&a.score)
            .then_with(|| a.view.cmp(&b.view))
            .then_with(|| path(a).cmp(path(b)))
            .then_with(|| a.found.chunk.cmp(&b.found.chunk))
    });
}

/// Each hit of a file leaves less to the next.
fn saturate(ranked: &mut [Ranked]) {
    let mut before: HashMap<(usize, u32), i32> = HashMap::new();
    for one in ranked {
        let count = before.entry((one.view, one.found.entry)).or_default();
        one.score *= table::SATURATION.powi((*count).min(8));
        *count += 1;
    }
}

/// How well paths fit a question, each found out once: many candidates are of the same files and directories.
struct Paths<'a> {
    plan: &'a Plan,
    views: &'a [&'a View],
    files: HashMap<(usize, u32), f32>,
    /// Whether the question has all words of a directory's name.
    parents: HashMap<&'a str, bool>,
    /// Whose memory is used again.
    words: Words<'a>,
    /// The words of the question.
    sieve: Sieve,
    /// The places of the question's words that tell something, one bit each.
    asked: u64,
}

impl<'a> Paths<'a> {
    fn of(plan: &'a Plan, views: &'a [&'a View]) -> Paths<'a> {
        let asked = plan.wanted.iter().filter(|wanted| tells(wanted));
        Paths {
            plan,
            views,
            files: HashMap::new(),
            parents: HashMap::new(),
            words: Words::of(""),
            sieve: Sieve::of(plan.wanted.iter().map(|wanted| wanted.text.as_str())),
            asked: asked.fold(0, |bits, wanted| bits | bit(wanted)),
        }
    }

    fn fit(&mut self, view: usize, entry: u32) -> f32 {
        if let Some(known) = self.files.get(&(view, entry)) {
            return *known;
        }
        let fit = self.look(&self.views[view].entries[entry as usize].path);
        self.files.insert((view, entry), fit);
        fit
    }

    /// Whether the question has the words of the file's stem, or of its directory.
    fn look(&mut self, path: &'a str) -> f32 {
        let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.split('.').next().unwrap_or(name);
        let parent = dirs.rsplit('/').next().unwrap_or(dirs);
        let mut share = 0.0;
        if self.has_all(stem) {
            share += table::STEM_OF_FILE;
        }
        let known = self.parents.get(parent).copied();
        let has_parent = known.unwrap_or_else(|| {
            let has = self.has_all(parent);
            self.parents.insert(parent, has);
            has
        });
        if has_parent {
            share += table::PARENT_OF_FILE;
        }
        if self.plan.class == Class::Symbol && same_letters(stem, &self.plan.query) {
            share += table::STEM_IS_NAME;
        }
        share + table::COVERS_QUESTION * self.part_of_question(path).powi(3)
    }

    /// Which part of a question in words a path has, 0 to 1; words that say little do not count.
    fn part_of_question(&mut self, path: &'a str) -> f32 {
        if self.plan.class != Class::Words || self.asked.count_ones() < 2 {
            return 0.0;
        }
        let (mut words, mut found) = (self.turn(path), 0);
        while words.advance_among(&self.sieve) {
            let same = |one: &&Wanted| one.text == words.text();
            let same = self.plan.wanted.iter().filter(same);
            found = same.fold(found, |bits, wanted| bits | bit(wanted));
        }
        self.words = words;
        (found & self.asked).count_ones() as f32 / self.asked.count_ones() as f32
    }

    /// Whether the question has all words of a name.
    fn has_all(&mut self, name: &'a str) -> bool {
        if !self.sieve.passes_any(name.as_bytes()) {
            return false;
        }
        let mut words = self.turn(name);
        // Stems and wholes stand beside the words themselves: one of each place is enough.
        let mut last: Option<(usize, bool)> = None;
        while words.advance() {
            let mut wanted = self.plan.wanted.iter();
            let asked = wanted.any(|wanted| wanted.text == words.text() && tells(wanted));
            last = match last {
                Some((place, found)) if place == words.position() => Some((place, found || asked)),
                Some((_, false)) => break,
                _ => Some((words.position(), asked)),
            };
        }
        self.words = words;
        last.is_some_and(|(_, found)| found)
    }

    fn turn(&mut self, text: &'a str) -> Words<'a> {
        std::mem::replace(&mut self.words, Words::of("")).turn(text)
    }
}

/// Whether a word says something about what is looked for.
fn tells(wanted: &Wanted) -> bool {
    wanted.weight > table::STOP_WORD * 2.0
}

fn bit(wanted: &Wanted) -> u64 {
    1_u64.checked_shl(wanted.place as u32).unwrap_or(0)
}

/// Whether two names have the same letters, however their parts are put together.
fn same_letters(one: &str, other: &str) -> bool {
    let letters = |name: &str| -> String {
        let letters = name.chars().filter(|letter| letter.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    letters(one) == letters(other)
}

/// Finds how near the words of the question stand to each other in the code of each candidate.
fn proximity(plan: &Plan, view: &View, at: usize, ranked: &mut [Ranked]) -> Result<()> {
    let mut terms: Vec<&Wanted> = plan
        .wanted
        .iter()
        .filter(|wanted| wanted.weight >= table::STEM.min(table::PIECE_BESIDE_STEM))
        .take(table::PROXIMITY_TERMS_MAX)
        .collect();
    terms.sort_by_key(|term| term.place);
    let places = terms.chunk_by(|a, b| a.place == b.place);
    let pairs = places.clone().count().saturating_sub(1);
    if pairs == 0 {
        return Ok(());
    }
    let mut order: Vec<usize> = (0..ranked.len())
        .filter(|i| ranked[*i].view == at)
        .collect();
    order.sort_by_key(|i| (ranked[*i].found.segment, ranked[*i].found.doc));
    // For each two words that follow each other in the question, one over their least distance.
    let mut near = vec![0.0; order.len()];
    let mut before = Vec::new();
    for terms in places {
        let mut here = Vec::new();
        for term in terms {
            positions(view, &term.text, &order, ranked, &mut here)?;
        }
        // Each term's are in order: the sort joins them.
        here.sort();
        add_nearness(&before, &here, &mut near);
        before = here;
    }
    for (i, near) in order.iter().zip(near) {
        ranked[*i].parts.proximity = table::PROXIMITY * (near / pairs as f32);
    }
    Ok(())
}

/// Adds the positions of a word in each candidate's code, with the candidate's place in `order`.
fn positions(
    view: &View,
    word: &str,
    order: &[usize],
    ranked: &[Ranked],
    stands: &mut Vec<(u32, u32)>,
) -> Result<()> {
    let term = Term::from_field_text(view.fields().of(Scored::Body), word);
    let mut found = Vec::new();
    let mut candidates = (0..).zip(order).peekable();
    while let Some((_, one)) = candidates.peek() {
        let segment = ranked[**one].found.segment;
        let mut postings = view.positions(&term, segment)?;
        while let Some((at, one)) =
            candidates.next_if(|(_, one)| ranked[**one].found.segment == segment)
        {
            let doc = ranked[*one].found.doc;
            let Some(postings) = &mut postings else {
                continue;
            };
            if postings.doc() < doc {
                postings.seek(doc);
            }
            if postings.doc() == doc {
                tantivy::postings::Postings::positions(postings, &mut found);
                stands.extend(found.iter().map(|position| (at, *position)));
            }
        }
    }
    Ok(())
}

/// Adds to each candidate's number how near one of its positions in `one` is to one in `other`, 0 to 1.
fn add_nearness(one: &[(u32, u32)], other: &[(u32, u32)], near: &mut [f32]) {
    let mut others = other.chunk_by(|a, b| a.0 == b.0).peekable();
    for here in one.chunk_by(|a, b| a.0 == b.0) {
        let at = here[0].0;
        while others.next_if(|others| others[0].0 < at).is_some() {}
        let there = others.next_if(|others| others[0].0 == at);
        if let Some(least) = there.and_then(|there| least_distance(here, there)) {
            near[at as usize] += 1.0 / least.max(1) as f32;
        }
    }
}

/// The least distance of two positions of one candidate.
fn least_distance(one: &[(u32, u32)], other: &[(u32, u32)]) -> Option<u32> {
    let (mut i, mut j, mut least) = (0, 0, None);
    while i < one.len() && j < other.len() {
        let distance = one[i].1.abs_diff(other[j].1);
        if least.is_none_or(|least| distance < least) {
            least = Some(distance);
        }
        match one[i].1 < other[j].1 {
            true => i += 1,
            false => j += 1,
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part_of_question(plan: &Plan, path: &str) -> f32 {
        Paths::of(plan, &[]).part_of_question(path)
    }

    fn of_path(plan: &Plan, path: &str) -> f32 {
        Paths::of(plan, &[]).look(path)
    }

    #[test]
    fn nearer_is_more() {
        let mut near = [0.0; 4];
        let one = [(0, 10), (0, 90), (1, 10), (2, 10)];
        add_nearness(&one, &[(0, 11), (1, 30), (3, 11)], &mut near);
        assert_eq!(near, [1.0, 0.05, 0.0, 0.0]);
    }

    #[test]
    fn a_path_that_has_the_question_counts_by_its_part() {
        let plan = Plan::of("where is the retry pool");
        assert_eq!(part_of_question(&plan, "src/net/retry_pool.rs"), 1.0);
        assert_eq!(part_of_question(&plan, "src/retries.rs"), 0.5);
        assert_eq!(part_of_question(&plan, "src/where/the.rs"), 0.0);
        // One word says too little, and a name is no question in words.
        let none = ["the pool", "retry_pool"].map(Plan::of);
        assert!(
            none.iter()
                .all(|plan| part_of_question(plan, "retry/pool.rs") == 0.0)
        );
        assert!(of_path(&plan, "net/retry_pool.rs") > of_path(&plan, "net/retry.rs"));
    }

    #[test]
    fn a_file_may_have_the_name_that_is_asked_for() {
        let plan = Plan::of("RetryPool");
        assert!(of_path(&plan, "net/retry_pool.rs") > of_path(&plan, "net/pool_retry.rs"));
        assert!(same_letters("retry_pool", "RetryPool") && !same_letters("retry", "retries"));
    }
}
