//! One answer that is to be made: its blocks, its usage and its end, in no dialect yet; and the stream of its pieces.
//!
//! A dialect writes an answer whole, or as events by [`Events`]: what comes before the first piece, then each block's
//! begin, pieces and end, then what ends the answer.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::asked::Asked;
use super::script::{Count, Said};
use super::{Llm, quoted, tokens_of};
use crate::target::body::Script;

/// The most bytes of one token of given words.
const PIECE_BYTES_MAX: usize = 6;

/// One answer that is to be made.
pub(super) struct Made {
    /// Unlike that of any other answer of the run: 24 hexadecimal digits.
    pub id: String,
    /// As JSON, with its quotes.
    pub model: String,
    /// Seconds since 1970.
    pub created: u64,
    pub blocks: Vec<Block>,
    pub usage: Usage,
    pub finish: Finish,
    /// Whether a stream of chat completions has its usage.
    pub include_usage: bool,
    /// How a summary of the reasoning was asked for, as JSON.
    pub summary: String,
    pub nth: u64,
}

/// A part of an answer. None is empty.
pub(super) enum Block {
    Reasoning(Words),
    Text(Words),
    Call {
        name: String,
        /// As the script says; else it is made.
        id: Option<String>,
        /// JSON, cut like words.
        arguments: Words,
    },
}

impl Block {
    pub(super) fn words(&self) -> &Words {
        match self {
            Block::Reasoning(words) | Block::Text(words) => words,
            Block::Call { arguments, .. } => arguments,
        }
    }

    /// The first tokens of it. A call is whole or nothing.
    fn cut(self, tokens: u64) -> Option<Block> {
        match self {
            Block::Reasoning(words) => words.cut(tokens).map(Block::Reasoning),
            Block::Text(words) => words.cut(tokens).map(Block::Text),
            Block::Call { .. } => None,
        }
    }
}

/// Tokens of a text.
pub(super) enum Words {
    /// So many without a meaning, from a place that the number of the request gives.
    Drawn {
        from: u64,
        count: u64,
    },
    Given(Vec<String>),
}

impl Words {
    /// A text cut as models cut it: a token begins with its space.
    pub(super) fn of(text: &str) -> Words {
        let (mut all, mut one) = (Vec::new(), String::new());
        for letter in text.chars() {
            let is_full = one.len() + letter.len_utf8() > PIECE_BYTES_MAX;
            if !one.is_empty() && (letter == ' ' || is_full) {
                all.push(std::mem::take(&mut one));
            }
            one.push(letter);
        }
        if !one.is_empty() {
            all.push(one);
        }
        Words::Given(all)
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Words::Drawn { count, .. } => *count,
            Words::Given(all) => all.len() as u64,
        }
    }

    /// The text of a token.
    pub(super) fn token(&self, index: u64) -> &str {
        const WORDS: [&str; 16] = [
            " a",
            " weir",
            " is",
            " the",
            " low",
            " dam",
            " that",
            " holds",
            " river",
            " and",
            " lets",
            " through",
            " what",
            " may",
            " pass",
            " measured",
        ];
        match self {
            Words::Drawn { from, .. } => {
                let at = usize::try_from(from.wrapping_add(index) % 16);
                let word = WORDS[at.expect("a remainder by 16")];
                if index == 0 { word.trim_start() } else { word }
            }
            Words::Given(all) => usize::try_from(index)
                .ok()
                .and_then(|at| all.get(at))
                .map_or("", String::as_str),
        }
    }

    pub(super) fn text(&self) -> String {
        (0..self.count()).map(|index| self.token(index)).collect()
    }

    fn cut(self, tokens: u64) -> Option<Words> {
        match self {
            _ if tokens == 0 => None,
            Words::Drawn { from, count } => Some(Words::Drawn {
                from,
                count: count.min(tokens),
            }),
            Words::Given(mut all) => {
                all.truncate(usize::try_from(tokens).unwrap_or(usize::MAX));
                Some(Words::Given(all))
            }
        }
    }
}

/// What is told of the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// All that was asked, with what the cache had.
    pub input: u64,
    pub cached: u64,
    /// All that was made, with the reasoning.
    pub output: u64,
    pub reasoning: u64,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    /// The request allowed fewer tokens than there would be.
    Length,
    /// It calls a tool.
    Tools,
}

impl Made {
    /// The answer to a request: what the script says, or words without a meaning.
    pub(super) fn of(
        asked: &Asked,
        said: Option<&Said>,
        body_bytes: u64,
        llm: &Llm,
        id: impl FnOnce() -> String,
    ) -> Made {
        let (blocks, is_cut) = cut(blocks(asked, said, llm), asked.max.unwrap_or(u64::MAX));
        let calls = blocks
            .iter()
            .any(|block| matches!(block, Block::Call { .. }));
        let usage = counted(&blocks, tokens_of(body_bytes), llm);
        Made {
            id: id(),
            model: quoted(&asked.model),
            created: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            usage: said.map_or(usage, |said| told(usage, &said.usage)),
            finish: match (is_cut, calls) {
                (true, _) => Finish::Length,
                (false, true) => Finish::Tools,
                (false, false) => Finish::Stop,
            },
            include_usage: asked.include_usage,
            summary: asked.summary.as_deref().map_or("null".to_owned(), quoted),
            blocks,
            nth: 0,
        }
    }

    /// How many pieces its stream has: one where it says nothing.
    pub(super) fn pieces_count(&self) -> u64 {
        let blocks = self.blocks.iter();
        blocks
            .map(|block| block.words().count())
            .sum::<u64>()
            .max(1)
    }

    /// The texts of its blocks of text, one behind the other.
    pub(super) fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text(words) => Some(words.text()),
            _ => None,
        });
        texts.collect()
    }

    /// The same of its reasoning; None where there is none.
    pub(super) fn reasoning(&self) -> Option<String> {
        let texts: Vec<String> = self
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Reasoning(words) => Some(words.text()),
                _ => None,
            })
            .collect();
        (!texts.is_empty()).then(|| texts.concat())
    }

    /// The id of the call at a place, as JSON.
    pub(super) fn call_id(&self, at: usize, prefix: &str) -> String {
        match self.blocks.get(at) {
            Some(Block::Call { id: Some(id), .. }) => quoted(id),
            _ => format!("\"{prefix}{}{at:02x}\"", self.id),
        }
    }

    /// The pieces of its stream, as a dialect writes them.
    pub(super) fn pieces(self, mut events: impl Events + 'static) -> Script {
        let (mut block, mut token, mut is_over) = (0, 0, false);
        Box::new(move || {
            if is_over {
                return None;
            }
            let mut out = String::with_capacity(512);
            if block == 0 && token == 0 {
                events.begin(&self, &mut out);
            }
            if let Some(of) = self.blocks.get(block) {
                if token == 0 {
                    events.open(&self, block, of, &mut out);
                }
                events.token(&self, block, of, of.words().token(token), &mut out);
                token += 1;
                if token == of.words().count() {
                    events.close(&self, block, of, &mut out);
                    (block, token) = (block + 1, 0);
                }
            }
            is_over = block >= self.blocks.len();
            if is_over {
                events.end(&self, &mut out);
            }
            Some(Bytes::from(out))
        })
    }
}

/// How a dialect writes a stream. Each call writes whole events, or nothing.
pub(super) trait Events {
    fn begin(&mut self, made: &Made, out: &mut String);
    fn open(&mut self, made: &Made, at: usize, block: &Block, out: &mut String);
    fn token(&mut self, made: &Made, at: usize, block: &Block, token: &str, out: &mut String);
    fn close(&mut self, made: &Made, at: usize, block: &Block, out: &mut String);
    fn end(&mut self, made: &Made, out: &mut String);
}

fn blocks(asked: &Asked, said: Option<&Said>, llm: &Llm) -> Vec<Block> {
    let drawn = |count| Words::Drawn {
        from: asked.turns as u64,
        count,
    };
    let call = |name: &str, id: Option<&String>, arguments: &str| Block::Call {
        name: name.to_owned(),
        id: id.cloned(),
        arguments: Words::of(arguments),
    };
    let mut blocks = Vec::new();
    if let Some(said) = said {
        let reasoning = said.reasoning.as_deref().map(Words::of);
        blocks.extend(reasoning.map(Block::Reasoning));
        let text = match (&said.words, said.tokens) {
            (Some(words), _) => Some(Words::of(words)),
            (None, Some(tokens)) => Some(drawn(tokens)),
            (None, None) if said.tools.is_empty() => Some(drawn(llm.tokens)),
            (None, None) => None,
        };
        blocks.extend(text.map(Block::Text));
        let tools = said.tools.iter();
        blocks.extend(tools.map(|tool| call(&tool.name, tool.id.as_ref(), &tool.arguments)));
    } else {
        if asked.reasons && llm.reasoning > 0 {
            blocks.push(Block::Reasoning(drawn(llm.reasoning)));
        }
        blocks.push(match &asked.tool {
            Some(tool) => call(&tool.name, None, &tool.arguments),
            None => Block::Text(drawn(llm.tokens)),
        });
    }
    blocks.retain(|block| block.words().count() > 0);
    blocks
}

/// The blocks within so many tokens, and whether that is less than all.
fn cut(blocks: Vec<Block>, mut left: u64) -> (Vec<Block>, bool) {
    let mut within = Vec::with_capacity(blocks.len());
    for block in blocks {
        match left.checked_sub(block.words().count()) {
            Some(rest) => {
                left = rest;
                within.push(block);
            }
            None => {
                within.extend(block.cut(left));
                return (within, true);
            }
        }
    }
    (within, false)
}

fn counted(blocks: &[Block], input: u64, llm: &Llm) -> Usage {
    let sum = |is_wanted: fn(&Block) -> bool| {
        let wanted = blocks.iter().filter(|block| is_wanted(block));
        wanted.map(|block| block.words().count()).sum()
    };
    Usage {
        input: llm.told(input),
        cached: llm.told((input as f64 * llm.cached).floor() as u64),
        output: llm.told(sum(|_| true)),
        reasoning: llm.told(sum(|block| matches!(block, Block::Reasoning(_)))),
    }
}

/// The usage with what the script says in its place. A part is never more than what it is a part of.
fn told(usage: Usage, count: &Count) -> Usage {
    let input = count.input.unwrap_or(usage.input);
    let output = count.output.unwrap_or(usage.output);
    Usage {
        input,
        cached: count.cached.unwrap_or(usage.cached).min(input),
        output,
        reasoning: count.reasoning.unwrap_or(usage.reasoning).min(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_and_joined_again() {
        for text in [
            "",
            "a",
            "the low dam",
            "  two",
            "déjà vu çà et là",
            "abcdefghijklmnop",
        ] {
            let words = Words::of(text);
            assert_eq!(words.text(), text);
            let tokens = (0..words.count()).map(|index| words.token(index));
            assert!(tokens.clone().all(|token| !token.is_empty()), "{text}");
            assert!(tokens.clone().all(|t| t.len() <= PIECE_BYTES_MAX), "{text}");
        }
        assert_eq!(Words::of("a b").count(), 2);
    }

    #[test]
    fn a_call_that_does_not_fit_is_left_out() {
        let call = |arguments: &str| Block::Call {
            name: "run".into(),
            id: None,
            arguments: Words::of(arguments),
        };
        let all = || {
            vec![
                Block::Text(Words::of("one two three")),
                call("{\"a\":\"b c d e\"}"),
            ]
        };
        let (within, is_cut) = cut(all(), 4);
        assert!(is_cut && within.len() == 1 && within[0].words().text() == "one two three");
        let (within, is_cut) = cut(all(), 2);
        assert!(is_cut && within[0].words().text() == "one two");
        let (within, is_cut) = cut(all(), 0);
        assert!(is_cut && within.is_empty());
        assert!(!cut(all(), 100).1);
    }
}
