//! The parts of a text that rules wait to be searched in.
//!
//! Windows of one rule that touch are searched as one, so that no text makes a rule read its bytes more than
//! a few times.

use std::ops::Range;

/// Windows that touch and are searched one by one, before the others are searched as one.
const TRIES_MAX: u8 = 16;

/// For each rule the window that it waits to search. Kept by who searches.
#[derive(Default)]
pub(crate) struct Windows {
    rules: Vec<Waiting>,
    /// The rules that were opened.
    opened: Vec<u16>,
}

/// A part of a text to be searched for one rule.
pub(crate) struct Window {
    pub(crate) span: Range<usize>,
    /// A match begins where the window does, or nowhere.
    pub(crate) anchored: bool,
}

#[derive(Clone, Default)]
struct Waiting {
    opened: bool,
    span: Range<usize>,
    /// Where the windows end that touch each other and were searched one by one, and how many they are.
    tried: usize,
    tries: u8,
    /// Where the last match ends.
    done: usize,
}

impl Windows {
    /// Makes room for so many rules.
    pub(crate) fn of(&mut self, rules: usize) {
        self.rules.resize(rules, Waiting::default());
    }

    /// Adds a window of a rule. Windows that touch become one; one that does not sends the one before
    /// to be searched.
    pub(crate) fn add(&mut self, index: u16, window: Range<usize>) -> Option<Window> {
        let waiting = self.open(index);
        if waiting.span.is_empty() {
            waiting.span = window;
            return None;
        }
        if window.start <= waiting.span.end {
            waiting.span.start = waiting.span.start.min(window.start);
            waiting.span.end = waiting.span.end.max(window.end);
            return None;
        }
        let span = std::mem::replace(&mut waiting.span, window);
        Some(Window {
            span,
            anchored: false,
        })
    }

    /// Adds a window of a rule whose matches begin where its windows do: it is searched at once, as long as
    /// not many touch.
    pub(crate) fn add_anchored(&mut self, index: u16, window: Range<usize>) -> Option<Window> {
        let waiting = self.open(index);
        if window.start >= waiting.tried {
            waiting.tries = 0;
        }
        if !waiting.span.is_empty() || waiting.tries == TRIES_MAX {
            return self.add(index, window);
        }
        waiting.tries += 1;
        waiting.tried = window.end;
        Some(Window {
            span: window,
            anchored: true,
        })
    }

    fn open(&mut self, index: u16) -> &mut Waiting {
        let waiting = &mut self.rules[usize::from(index)];
        if !waiting.opened {
            waiting.opened = true;
            self.opened.push(index);
        }
        waiting
    }

    /// Where a rule goes on to search: behind its last match.
    pub(crate) fn done(&mut self, index: u16) -> &mut usize {
        &mut self.rules[usize::from(index)].done
    }

    /// The next window that still waits. Its rule has to be closed when it was searched.
    pub(crate) fn next(&mut self) -> Option<(u16, Window)> {
        while let Some(index) = self.opened.last().copied() {
            let span = std::mem::take(&mut self.rules[usize::from(index)].span);
            if !span.is_empty() {
                let anchored = false;
                return Some((index, Window { span, anchored }));
            }
            self.opened.pop();
            self.rules[usize::from(index)] = Waiting::default();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows() -> Windows {
        let mut windows = Windows::default();
        windows.of(2);
        windows
    }

    fn rest(windows: &mut Windows) -> Vec<(u16, Range<usize>)> {
        let next = || windows.next().map(|(index, window)| (index, window.span));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn windows_that_touch_are_one() {
        let mut windows = windows();
        assert!(windows.add(0, 10..20).is_none());
        assert!(windows.add(1, 12..13).is_none());
        assert!(windows.add(0, 5..12).is_none());
        assert!(windows.add(0, 20..30).is_none());
        let ready = windows.add(0, 31..40).unwrap();
        assert_eq!((ready.span, ready.anchored), (5..30, false));
        assert_eq!(rest(&mut windows), [(1, 12..13), (0, 31..40)]);
        assert!(rest(&mut windows).is_empty());
    }

    #[test]
    fn anchored_windows_are_searched_at_once_until_they_are_many() {
        let mut windows = windows();
        let tries = usize::from(TRIES_MAX);
        for start in 0..tries {
            let ready = windows.add_anchored(0, start..start + 100).unwrap();
            assert!(ready.anchored);
        }
        assert!(windows.add_anchored(0, tries..tries + 100).is_none());
        assert!(windows.add_anchored(0, tries + 3..tries + 103).is_none());
        let ready = windows.add_anchored(0, 200..300).unwrap();
        assert_eq!((ready.span, ready.anchored), (tries..tries + 103, false));
        assert_eq!(rest(&mut windows), [(0, 200..300)]);
        assert!(windows.add_anchored(0, 400..500).unwrap().anchored);
    }
}
