//! Draws SVG by plotters' backend, and hands colours over to the page's style sheet.
//!
//! The backend writes colours as numbers, which neither dark mode nor print can change. So each ink has a number
//! of its own here, and what was drawn is rewritten with classes in its place. Text stays text; nothing has an id
//! or a reference. Positions are in pixels; the backend counts whole ones, so it is given quarters.

use std::fmt::Write as _;

use plotters::backend::SVGBackend;
use plotters::prelude::{DrawingBackend, IntoFont, ShapeStyle, TextStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, RGBColor};

use super::words::clean;

/// The backend's pixels in one of ours.
const FINE: f64 = 4.0;
/// How much larger than its font size plotters takes text to be.
const PLOTTERS_FONT: f64 = 1.24;
/// Farther than this from the origin nothing is drawn.
const FARTHEST: f64 = 100_000.0;
/// How many colours tell series apart.
pub const SERIES_MAX: usize = 8;
/// How many steps of colour a heat map has.
pub const HEAT_MAX: usize = 8;

/// What something is drawn with. The style sheet says what it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// A series, drawn solid.
    Series(usize),
    /// The same colour, in dashes.
    Dashed(usize),
    /// The same colour, in dots.
    Dotted(usize),
    /// A step of a heat map, of [`HEAT_MAX`].
    Heat(usize),
    Text,
    /// Text that stands back.
    Quiet,
    Grid,
    Axis,
    /// The ground of a ramp.
    Band,
    /// The ground of a warm-up.
    Warm,
}

impl Ink {
    /// The number that the ink has in what the backend writes.
    fn colour(self) -> RGBColor {
        match self {
            Ink::Series(i) => RGBColor(1, (i % SERIES_MAX) as u8, 0),
            Ink::Dashed(i) => RGBColor(1, (i % SERIES_MAX) as u8, 1),
            Ink::Dotted(i) => RGBColor(1, (i % SERIES_MAX) as u8, 2),
            Ink::Heat(i) => RGBColor(2, i.min(HEAT_MAX - 1) as u8, 0),
            Ink::Text => RGBColor(3, 0, 0),
            Ink::Quiet => RGBColor(3, 1, 0),
            Ink::Grid => RGBColor(3, 2, 0),
            Ink::Axis => RGBColor(3, 3, 0),
            Ink::Band => RGBColor(3, 4, 0),
            Ink::Warm => RGBColor(3, 5, 0),
        }
    }

    /// The classes of a number: `f-…` to fill, `s-…` to stroke.
    fn classes(number: &str, way: char) -> Option<String> {
        let part = |from: usize| u8::from_str_radix(number.get(from..from + 2)?, 16).ok();
        let (kind, index, dash) = (part(1)?, part(3)?, part(5)?);
        let name = match (kind, index) {
            (1, i) => format!("c{i}"),
            (2, i) => format!("h{i}"),
            (3, 0) => "text".to_owned(),
            (3, 1) => "quiet".to_owned(),
            (3, 2) => "grid".to_owned(),
            (3, 3) => "axis".to_owned(),
            (3, 4) => "band".to_owned(),
            (3, 5) => "warm".to_owned(),
            _ => return None,
        };
        Some(match dash {
            1 => format!("{way}-{name} dashed"),
            2 => format!("{way}-{name} dotted"),
            _ => format!("{way}-{name}"),
        })
    }
}

/// Where a text stands to its point, from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It begins there.
    Start,
    Middle,
    /// It ends there.
    End,
}

/// What draws one picture.
pub struct Pen<'a> {
    backend: SVGBackend<'a>,
}

/// Draws a picture of a size in pixels. The label is what a reader is told who does not see it.
pub fn svg(width: f64, height: f64, label: &str, draw: impl FnOnce(&mut Pen)) -> String {
    let mut raw = String::new();
    {
        let size = ((width * FINE) as u32, (height * FINE) as u32);
        let mut pen = Pen {
            backend: SVGBackend::with_string(&mut raw, size),
        };
        draw(&mut pen);
        pen.backend
            .present()
            .expect("a string takes what is written");
    }
    restyle(&raw, width, height, label)
}

impl Pen<'_> {
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, width: f64) {
        let (Some(from), Some(to)) = (fine(from), fine(to)) else {
            return;
        };
        let style = stroke(ink, width);
        let drawn = self.backend.draw_line(from, to, &style);
        drawn.expect("a string takes what is written");
    }

    /// A line through points. One point alone is a dot.
    pub fn path(&mut self, points: &[(f64, f64)], ink: Ink, width: f64) {
        if let [alone] = points {
            return self.dot(*alone, ink, width * 1.5);
        }
        let points: Vec<(i32, i32)> = points.iter().copied().filter_map(fine).collect();
        if points.len() < 2 {
            return;
        }
        let drawn = self.backend.draw_path(points, &stroke(ink, width));
        drawn.expect("a string takes what is written");
    }

    /// A filled shape.
    pub fn area(&mut self, points: &[(f64, f64)], ink: Ink) {
        let points: Vec<(i32, i32)> = points.iter().copied().filter_map(fine).collect();
        if points.len() < 3 {
            return;
        }
        let drawn = self.backend.fill_polygon(points, &ink.colour());
        drawn.expect("a string takes what is written");
    }

    /// A filled rectangle, at least a quarter of a pixel wide and high.
    pub fn rect(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        let (Some(from), Some(to)) = (fine(from), fine(to)) else {
            return;
        };
        let to = (to.0.max(from.0 + 1), to.1.max(from.1 + 1));
        let drawn = self.backend.draw_rect(from, to, &ink.colour(), true);
        drawn.expect("a string takes what is written");
    }

    pub fn dot(&mut self, at: (f64, f64), ink: Ink, radius: f64) {
        let Some(at) = fine(at) else { return };
        let radius = (radius * FINE).round().max(1.0) as u32;
        let drawn = self.backend.draw_circle(at, radius, &ink.colour(), true);
        drawn.expect("a string takes what is written");
    }

    /// A text, in the middle of its line at the point.
    pub fn text(&mut self, at: (f64, f64), text: &str, ink: Ink, stand: Stand, size: f64) {
        self.write(at, text, ink, stand, size, FontTransform::None);
    }

    /// A text that runs upwards, with its middle at the point.
    pub fn text_up(&mut self, at: (f64, f64), text: &str, ink: Ink, size: f64) {
        self.write(at, text, ink, Stand::Middle, size, FontTransform::Rotate270);
    }

    fn write(
        &mut self,
        at: (f64, f64),
        text: &str,
        ink: Ink,
        stand: Stand,
        size: f64,
        turned: FontTransform,
    ) {
        let Some(at) = fine(at) else { return };
        let across = match stand {
            Stand::Start => HPos::Left,
            Stand::Middle => HPos::Center,
            Stand::End => HPos::Right,
        };
        let font = ("sans-serif", size * FINE * PLOTTERS_FONT).into_font();
        let colour = ink.colour();
        let style = TextStyle::from(font.transform(turned))
            .color(&colour)
            .pos(Pos::new(across, VPos::Center));
        let drawn = self.backend.draw_text(&clean(text), &style, at);
        drawn.expect("a string takes what is written");
    }
}

/// How wide a text of a size will be, about: the font is the reader's.
pub fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

fn stroke(ink: Ink, width: f64) -> ShapeStyle {
    ink.colour()
        .stroke_width((width * FINE).round().max(1.0) as u32)
}

/// A point in the backend's pixels; nothing where it is no place at all.
fn fine((x, y): (f64, f64)) -> Option<(i32, i32)> {
    let near = |v: f64| v.is_finite() && v.abs() <= FARTHEST;
    (near(x) && near(y)).then(|| ((x * FINE).round() as i32, (y * FINE).round() as i32))
}

/// Rewrites what the backend wrote: classes for colours, our pixels for its own, one element a line.
fn restyle(raw: &str, width: f64, height: f64, label: &str) -> String {
    let mut label_text = String::new();
    for c in clean(label).chars() {
        match c {
            '&' => label_text.push_str("&amp;"),
            '<' => label_text.push_str("&lt;"),
            '>' => label_text.push_str("&gt;"),
            '"' => label_text.push_str("&quot;"),
            c => label_text.push(c),
        }
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{label_text}\">\n<title>{label_text}</title>\n"
    );
    for line in raw.lines().skip(1) {
        match line.strip_prefix('<') {
            Some(tag) if tag.starts_with('/') => {
                let _ = writeln!(out, "{line}");
            }
            Some(tag) => element(&mut out, tag),
            // The backend puts a text on a line of its own, escaped.
            None => out.push_str(line),
        }
    }
    out
}

/// Writes one element that the backend wrote, without its `<`.
fn element(out: &mut String, tag: &str) {
    let (body, end) = match tag.strip_suffix("/>") {
        Some(body) => (body, "/>\n"),
        None => (tag.strip_suffix('>').unwrap_or(tag), ">"),
    };
    let (name, attributes) = body.split_once(' ').unwrap_or((body, ""));
    let _ = write!(out, "<{name}");
    let (mut classes, mut style): (Vec<String>, Vec<(&str, String)>) = (Vec::new(), Vec::new());
    // Values are escaped, so a quote followed by a space only ever ends one.
    for attribute in attributes.trim_end_matches('"').split("\" ") {
        let Some((key, value)) = attribute.split_once("=\"") else {
            continue;
        };
        match key {
            "fill" | "stroke" if value.starts_with('#') => {
                let way = if key == "fill" { 'f' } else { 's' };
                classes.extend(Ink::classes(value, way));
            }
            "fill" if name == "polyline" => style.push((key, value.to_owned())),
            "fill" | "stroke" | "opacity" | "font-family" => {}
            // A dot that is filled has no outline.
            "stroke-width" if name == "circle" => {}
            "dy" => style.push((key, "0.35em".to_owned())),
            "text-anchor" if value == "start" => {}
            "text-anchor" => style.push((key, value.to_owned())),
            "transform" => style.push((key, coarse_turn(value))),
            "points" => style.push((key, coarse_points(value))),
            _ => style.push((key, coarse(value))),
        }
    }
    for (key, value) in style {
        let _ = write!(out, " {key}=\"{value}\"");
    }
    let _ = write!(out, " class=\"{}\"{end}", classes.join(" "));
}

/// A number of the backend's pixels in ours.
fn coarse(value: &str) -> String {
    let Ok(number) = value.parse::<f64>() else {
        return value.to_owned();
    };
    let quarters = number.round() / FINE;
    format!("{quarters}")
}

fn coarse_points(value: &str) -> String {
    let each = value.split_whitespace().map(|point| {
        let (x, y) = point.split_once(',').unwrap_or((point, "0"));
        format!("{},{}", coarse(x), coarse(y))
    });
    each.collect::<Vec<_>>().join(" ")
}

/// `rotate(angle, x, y)` around a point of ours.
fn coarse_turn(value: &str) -> String {
    let inner = value.trim_start_matches("rotate(").trim_end_matches(')');
    let mut parts = inner.split(", ");
    let angle = parts.next().unwrap_or("0");
    let place: Vec<String> = parts.map(coarse).collect();
    format!("rotate({angle} {})", place.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes_and_pixels_ours() {
        let drawn = svg(100.0, 50.0, "a <plot> & \"more\"", |pen| {
            pen.line((0.0, 1.25), (10.0, 20.5), Ink::Grid, 1.0);
            pen.path(&[(1.0, 2.0), (3.0, 4.0)], Ink::Dashed(2), 1.5);
            pen.rect((1.0, 1.0), (2.5, 2.0), Ink::Heat(7));
            pen.dot((5.0, 5.0), Ink::Series(1), 2.0);
            pen.text((3.0, 4.0), "<b>&\"\u{0}", Ink::Text, Stand::End, 11.0);
            pen.text_up((3.0, 4.0), "up", Ink::Quiet, 11.0);
        });
        let expected = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 100 50\" role=\"img\" \
            aria-label=\"a &lt;plot&gt; &amp; &quot;more&quot;\">\n\
            <title>a &lt;plot&gt; &amp; &quot;more&quot;</title>\n\
            <line stroke-width=\"1\" x1=\"0\" y1=\"1.25\" x2=\"10\" y2=\"20.5\" class=\"s-grid\"/>\n\
            <polyline fill=\"none\" stroke-width=\"1.5\" points=\"1,2 3,4\" class=\"s-c2 dashed\"/>\n\
            <rect x=\"1\" y=\"1\" width=\"1.5\" height=\"1\" class=\"f-h7\"/>\n\
            <circle cx=\"5\" cy=\"5\" r=\"2\" class=\"f-c1\"/>\n\
            <text x=\"3\" y=\"4\" dy=\"0.35em\" text-anchor=\"end\" font-size=\"11\" class=\"f-text\">\
            &lt;b&gt;&amp;&quot;\u{fffd}</text>\n\
            <text x=\"3\" y=\"4\" dy=\"0.35em\" text-anchor=\"middle\" font-size=\"11\" \
            transform=\"rotate(270 3 4)\" class=\"f-quiet\">up</text>\n\
            </svg>\n";
        assert_eq!(drawn, expected);
    }

    #[test]
    fn what_has_no_place_is_not_drawn() {
        let drawn = svg(10.0, 10.0, "", |pen| {
            pen.line((f64::NAN, 0.0), (1.0, 1.0), Ink::Axis, 1.0);
            pen.path(&[(f64::INFINITY, 0.0), (1.0, 1.0)], Ink::Axis, 1.0);
            pen.path(&[], Ink::Axis, 1.0);
            pen.area(&[(0.0, 0.0)], Ink::Band);
            pen.rect((1e30, 0.0), (1.0, 1.0), Ink::Band);
        });
        assert_eq!(drawn.lines().count(), 3, "{drawn}");
    }
}
