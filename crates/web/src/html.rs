//! What a page says: its title, its links, the text that a reader sees, and all text that stands in it, seen or not.
//!
//! Hidden text matters because a model reads what a person does not: comments, `display: none`, descriptions of pictures.
//! The readable part is legible's, a port of Mozilla's Readability; where it finds none, the visible text stands in.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

/// Links of one page that are told.
const LINKS_MAX: usize = 1_000;
/// Nesting up to which legible is asked; it walks trees by recursion.
const DEPTH_MAX: usize = 400;
/// Bytes of a page that legible is asked about.
const READABLE_BYTES_MAX: usize = 2 << 20;
/// Elements of a page that legible is asked about.
const ELEMENTS_MAX: usize = 50_000;
/// Elements of a page that are believed to end where they begin: the parts of its drawings.
const SELF_CLOSED_MAX: usize = 400;
/// Characters of a text that is worth being called the readable part.
const READABLE_CHARS_MIN: usize = 80;

/// Elements without an end.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements of drawings that have nothing in them where they end themselves: `<path/>`.
const SELF_CLOSED: &[&str] = &[
    "circle", "ellipse", "line", "path", "polygon", "polyline", "rect", "stop", "use",
];
/// Elements that the next of their kind ends.
const ENDED_BY_NEXT: &[&str] = &[
    "p", "li", "dt", "dd", "td", "th", "tr", "tbody", "thead", "tfoot", "option", "optgroup", "rp",
    "rt", "colgroup",
];
/// Elements whose text is not read by who sees the page.
const UNSEEN: &[&str] = &[
    "script", "style", "template", "noscript", "head", "svg", "math",
];
/// Elements that stand in a line with what is around them.
const INLINE: &[&str] = &[
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img",
    "ins", "kbd", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup",
    "time", "tt", "u", "var", "wbr",
];
/// Attributes whose values are text for readers of some kind.
const TEXTS: &[&str] = &[
    "alt",
    "title",
    "aria-label",
    "aria-description",
    "content",
    "placeholder",
    "value",
    "label",
    "summary",
];

/// A page that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) title: String,
    /// Where they lead, as written, and what they say.
    pub(crate) links: Vec<(String, String)>,
    /// What `base` says that links are relative to.
    pub(crate) base: Option<String>,
    /// What a reader sees.
    pub(crate) text: String,
    /// All text, also comments and what is hidden.
    pub(crate) all: String,
    /// Deepest nesting: never less than it is, for what is known of it here.
    depth: usize,
    elements: usize,
}

/// Reads a page.
pub(crate) fn read(html: &str) -> Page {
    let sink = PageSink::default();
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from_slice(html));
    // Nothing here asks the tokenizer to stop.
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    let mut state = tokenizer.sink.0.into_inner();
    state.end_link();
    let mut page = state.page;
    page.title = one_line(&page.title);
    page.text = tidy(&page.text);
    page
}

/// The readable part of a page: its title and its text.
pub(crate) fn readable(html: &str, url: &str, page: &Page) -> (String, String) {
    let plain = || (page.title.clone(), page.text.clone());
    let is_large = html.len() > READABLE_BYTES_MAX || page.elements > ELEMENTS_MAX;
    if is_large || page.depth > DEPTH_MAX {
        return plain();
    }
    let options = legible::Options::new().max_elems_to_parse(ELEMENTS_MAX);
    let Ok(article) = legible::parse(html, Some(url), Some(options)) else {
        return plain();
    };
    let text = tidy(&article.text_content);
    if text.chars().take(READABLE_CHARS_MIN).count() < READABLE_CHARS_MIN {
        return plain();
    }
    let title = match article.title.trim() {
        "" => page.title.clone(),
        title => one_line(title),
    };
    (title, text)
}

/// A text in one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lines without space around them, and no more than one empty line between two.
fn tidy(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        let line = one_line(line);
        match line.is_empty() {
            true => empty += 1,
            false => {
                if !tidy.is_empty() {
                    tidy.push_str(if empty > 0 { "\n\n" } else { "\n" });
                }
                tidy.push_str(&line);
                empty = 0;
            }
        }
    }
    tidy
}

#[derive(Default)]
struct PageSink(RefCell<PageState>);

#[derive(Default)]
struct PageState {
    page: Page,
    is_title: bool,
    /// The element that hides what is in it, and how many of its name are open in it.
    hidden: Option<(String, usize)>,
    /// The link that is open.
    link: Option<(String, String)>,
    /// The names of elements that are open, as far as that is looked at.
    open: Vec<String>,
    self_closed: usize,
}

impl TokenSink for PageSink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut state = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(text) => state.text(&text),
            Token::CommentToken(text) => state.unseen(&text),
            Token::TagToken(tag) => return state.tag(&tag),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl PageState {
    fn text(&mut self, text: &str) {
        self.page.all.push_str(text);
        if self.is_title {
            return self.page.title.push_str(text);
        }
        if self.hidden.is_none() {
            self.page.text.push_str(text);
            if let Some((_, said)) = &mut self.link {
                said.push_str(text);
            }
        }
    }

    /// Text that no reader sees.
    fn unseen(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.page.all.push('\n');
            self.page.all.push_str(text);
            self.page.all.push('\n');
        }
    }

    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        if !INLINE.contains(&name) {
            self.page.text.push('\n');
            self.page.all.push('\n');
        }
        match tag.kind {
            TagKind::StartTag => self.start(tag, name),
            TagKind::EndTag => {
                self.end(name);
                TokenSinkResult::Continue
            }
        }
    }

    fn start(&mut self, tag: &Tag, name: &str) -> TokenSinkResult<()> {
        for text in TEXTS {
            if let Some(value) = attribute(tag, text) {
                self.unseen(value);
            }
        }
        let is_open = !VOID.contains(&name);
        self.page.elements += 1;
        if is_open && !ENDED_BY_NEXT.contains(&name) && !self.is_self_closed(tag, name) {
            self.deepen(name);
        }
        match &mut self.hidden {
            Some((hidden, open)) => *open += usize::from(is_open && hidden == name),
            None if is_open && (UNSEEN.contains(&name) || is_hidden(tag)) => {
                self.hidden = Some((name.to_owned(), 1));
            }
            None => {}
        }
        match name {
            "title" => self.is_title = self.page.title.is_empty(),
            "base" if self.page.base.is_none() => {
                self.page.base = attribute(tag, "href").map(str::to_owned);
            }
            "a" => {
                self.end_link();
                let href = attribute(tag, "href").filter(|_| self.hidden.is_none());
                self.link = href.map(|href| (href.trim().to_owned(), String::new()));
            }
            // The body begins, whether the head ended or not.
            "body" => self.hidden = None,
            _ => {}
        }
        raw(name)
    }

    /// Whether an element ends itself. Of most the browser does not believe it.
    fn is_self_closed(&mut self, tag: &Tag, name: &str) -> bool {
        let is =
            tag.self_closing && SELF_CLOSED.contains(&name) && self.self_closed < SELF_CLOSED_MAX;
        self.self_closed += usize::from(is);
        is
    }

    fn deepen(&mut self, name: &str) {
        // What is too deep stays so.
        if self.page.depth <= DEPTH_MAX {
            self.open.push(name.to_owned());
            self.page.depth = self.page.depth.max(self.open.len());
        }
    }

    fn end(&mut self, name: &str) {
        // An end that is not that of the innermost element may end nothing.
        if self.open.last().is_some_and(|open| open == name) {
            self.open.pop();
        }
        if let Some((hidden, open)) = &mut self.hidden
            && hidden == name
        {
            *open -= 1;
            if *open == 0 {
                self.hidden = None;
            }
        }
        match name {
            "title" => self.is_title = false,
            "a" => self.end_link(),
            _ => {}
        }
    }

    fn end_link(&mut self) {
        if let Some((href, said)) = self.link.take()
            && self.page.links.len() < LINKS_MAX
            && !href.is_empty()
            && !href.starts_with('#')
        {
            self.page.links.push((href, one_line(&said)));
        }
    }
}

/// What follows a start tag that is not read as tags are (HTML, section 13.2.6.2).
fn raw(name: &str) -> TokenSinkResult<()> {
    match name {
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        "style" | "xmp" | "iframe" | "noembed" | "noframes" => {
            TokenSinkResult::RawData(RawKind::Rawtext)
        }
        "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
        _ => TokenSinkResult::Continue,
    }
}

fn attribute<'t>(tag: &'t Tag, name: &str) -> Option<&'t str> {
    let mut attributes = tag.attrs.iter();
    let found = attributes.find(|attribute| *attribute.name.local == *name)?;
    Some(&found.value)
}

/// Whether a reader does not see an element, by what stands at the element itself.
fn is_hidden(tag: &Tag) -> bool {
    let style = attribute(tag, "style").unwrap_or_default();
    let style: String = style
        .split_whitespace()
        .collect::<String>()
        .to_ascii_lowercase();
    attribute(tag, "hidden").is_some()
        || attribute(tag, "aria-hidden") == Some("true")
        || [
            "display:none",
            "visibility:hidden",
            "opacity:0;",
            "font-size:0",
        ]
        .iter()
        .any(|hides| style.contains(hides))
        || style.ends_with("opacity:0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<!doctype html><html><head><title> The\n river </title><base href='/b/'>\
        <style>p { color: red }</style></head><body><nav><a href='/home'>Home <b>page</b></a>\
        <a href='#top'>Top</a></nav><p>One &amp; two.<p>Three<br>four\
        <!-- a comment --><div style='display: none'>hidden <div>deep</div> words</div><span hidden>gone</span>\
        <img alt='a picture'><script>var x = '<p>no</p>';</script></body></html>";

    #[test]
    fn a_page_says_its_title_links_and_text() {
        let page = read(PAGE);
        assert_eq!(page.title, "The river");
        assert_eq!(page.base.as_deref(), Some("/b/"));
        assert_eq!(page.links, [("/home".into(), "Home page".into())]);
        assert_eq!(page.text, "Home pageTop\n\nOne & two.\nThree\nfour");
    }

    #[test]
    fn what_nobody_sees_is_read_all_the_same() {
        let page = read(PAGE);
        for hidden in [
            "a comment",
            "hidden",
            "deep",
            "words",
            "gone",
            "a picture",
            "var x",
        ] {
            assert!(page.all.contains(hidden), "{hidden}");
            assert!(!page.text.contains(hidden), "{hidden}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let deep = format!(
            "{}text{}",
            "<div>".repeat(100_000),
            "</div>".repeat(100_000)
        );
        let page = read(&deep);
        assert_eq!(readable(&deep, "https://a.example/", &page).1, "text");
        for deep in ["<div/>", "<div></p></b>", "<div></span>", "<path/>"] {
            let page = read(&deep.repeat(1_000));
            assert!(page.depth > DEPTH_MAX, "{deep}");
        }
        assert!(read(&"<div><svg><path/></svg></div>".repeat(300)).depth < 5);
        assert!(read(&"<i></i>".repeat(ELEMENTS_MAX + 1)).elements > ELEMENTS_MAX);
        let many = "<a href='/x'>x</a>".repeat(5_000);
        assert_eq!(read(&many).links.len(), LINKS_MAX);
        // Whatever is left open.
        for bad in [
            "<",
            "<a",
            "<a href",
            "<a href='",
            "<!--",
            "<title>",
            "<script>",
            "&#x",
            "\0<\0",
        ] {
            read(bad);
        }
    }

    #[test]
    fn the_readable_part_is_the_article() {
        let sentence = "The water stands high behind the old weir, and the miller opens the gate a little at dawn. ";
        let html = format!(
            "<html><head><title>News</title></head><body><nav>Menu Login Sign up</nav><article><h1>Water</h1><p>{0}</p><p>{0}</p><p>{0}</p></article><footer>Imprint</footer></body></html>",
            sentence.repeat(4)
        );
        let page = read(&html);
        let (title, text) = readable(&html, "https://a.example/", &page);
        assert_eq!(title, "News");
        assert!(text.contains("the miller opens the gate"), "{text}");
        assert!(!text.contains("Login"), "{text}");
    }
}
