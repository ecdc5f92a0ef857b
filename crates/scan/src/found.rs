//! What a match is to who reads of it: where it came from, what was undone to see it, and whether it is an attack or
//! tells of one.

use std::ops::Range;

use crate::decode::wrapped;
use crate::layer::Layer;
use crate::rule::{Class, Kind, Rule};
use crate::{fold, harmless, install, mention, told};

/// A finding before it has a path.
pub(crate) struct Found {
    pub(crate) rule: &'static Rule,
    /// Bytes of the input; where a match is split over strings, each of its parts.
    pub(crate) parts: Vec<Range<usize>>,
    pub(crate) disguise: &'static str,
    pub(crate) fingerprint: u64,
    /// It stands in a JSON number, or between strings.
    pub(crate) bare: bool,
    /// It is quoted in a text about such things.
    pub(crate) mention: bool,
}

impl Found {
    pub(crate) fn span(&self) -> Range<usize> {
        let first = self.parts.first().map_or(0, |part| part.start);
        first..self.parts.last().map_or(0, |part| part.end)
    }
}

/// Whether a match tells of an attack rather than being one.
pub(crate) fn tells(rule: &Rule, layer: &Layer<'_>, span: &Range<usize>) -> bool {
    let bytes = layer.bytes;
    let string = layer.string(span.start).map(|(_, string)| string);
    let string = string.unwrap_or(0..bytes.len());
    let phrase = told::inside(bytes, span);
    let harmless = match rule.kind {
        Some(Kind::Template) => mention::template_named(bytes, span),
        Some(Kind::Solicit | Kind::Encoded) => {
            mention::forbidden(bytes, &phrase) || harmless::correspondence(bytes, &phrase)
        }
        Some(Kind::Exfil) => {
            harmless::correspondence(bytes, &phrase)
                || harmless::without_secret(bytes, &phrase)
                || harmless::explained_placeholder(bytes, &phrase)
                || install::configures(bytes, span.start)
                || mention::about(bytes, &phrase) && harmless::documented_command(bytes, &phrase)
        }
        Some(Kind::Tool) => {
            mention::about(bytes, &phrase) && harmless::documented_command(bytes, &phrase)
        }
        Some(Kind::Covert) => harmless::embargo(bytes, &phrase),
        Some(Kind::Hidden) => harmless::option_value(bytes, span),
        _ => false,
    };
    harmless || mention::mentioned(bytes, &string, &phrase) || told::told(bytes, &phrase)
}

/// Where a match came from.
pub(crate) struct Trace {
    pub(crate) parts: Vec<Range<usize>>,
    pub(crate) disguise: &'static str,
    pub(crate) bare: bool,
}

/// Follows a match back to the bytes that came, and names what was undone on the way.
pub(crate) fn trace(layer: &Layer<'_>, rule: &Rule, span: Range<usize>) -> Trace {
    let mut disguise = match rule.class {
        Class::Injection if crate::words::is_leet(&layer.bytes[span.clone()]) => "leetspeak",
        _ => "",
    };
    let mut root = layer;
    let mut parts = vec![span];
    while let Some(parent) = root.parent {
        parts = parts.iter().flat_map(|part| root.sources(part)).collect();
        if disguise.is_empty() {
            disguise = match root.name {
                "" => fold::disguise(&parent.bytes[parts[0].clone()]),
                name => name,
            };
        }
        root = parent;
    }
    let bare = root.string(parts[0].start).is_none();
    let mut parts: Vec<Range<usize>> = parts.iter().flat_map(|part| root.sources(part)).collect();
    // They may have been put together in another order than they came in.
    parts.sort_by_key(|part| part.start);
    Trace {
        parts,
        disguise,
        bare,
    }
}

/// Leaves one finding of a secret that is broken by line ends, where a part of it was found by itself too. Where
/// several were, these are lines of a list, and not broken; where words of a sentence follow the part, it is whole.
/// Example: of a key, a line end and `Ignore it`, the key alone is left.
pub(crate) fn once(found: &mut Vec<Found>, input: &[u8]) {
    let wrapped = |found: &Found| found.disguise == wrapped::NAME;
    if !found.iter().any(wrapped) {
        return;
    }
    let at = |(index, found): (usize, &Found)| (found.rule.id, found.span().start, index);
    let alone = found.iter().enumerate().filter(|(_, one)| !wrapped(one));
    let mut alone: Vec<(&str, usize, usize)> = alone.map(at).collect();
    alone.sort_unstable();
    let mut keep = vec![true; found.len()];
    for (index, whole) in found.iter().enumerate().filter(|(_, one)| wrapped(one)) {
        let (id, span) = (whole.rule.id, whole.span());
        let first = alone.partition_point(|part| *part < (id, span.start, 0));
        let inside = alone[first..].iter();
        let inside = inside.take_while(|part| part.0 == id && part.1 <= span.end);
        let mut parts = inside.map(|part| part.2).filter(|part| {
            let part = found[*part].span();
            part != span && part.end <= span.end
        });
        match (parts.next(), parts.next()) {
            (None, _) => {}
            (Some(part), None) => {
                let rest = input.get(found[part].span().end..span.end);
                let is_whole = rest.is_some_and(is_sentence);
                keep[if is_whole { index } else { part }] = false;
            }
            (Some(_), Some(_)) => keep[index] = false,
        }
    }
    let mut keep = keep.into_iter();
    found.retain(|_| keep.next().unwrap_or(true));
}

/// Whether a text is white space, of JSON's escapes too, and words of a sentence.
fn is_sentence(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let text = text
        .replace("\\n", " ")
        .replace("\\r", " ")
        .replace("\\t", " ");
    let is_word = |word: &str| {
        word.bytes().all(|byte| byte.is_ascii_alphabetic()) && wrapped::is_word(word.as_bytes())
    };
    text.split_whitespace().all(is_word)
}
