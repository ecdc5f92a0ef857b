//! The tools of the fake MCP server.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::message::{Fault, Message};
use crate::target::answer::Origin;
use crate::target::body::fill;

/// The longest sleep, in milliseconds.
const SLEEP_MS_MAX: u64 = 60_000;
/// The most bytes of a text that `size` makes.
const SIZE_BYTES_MAX: u64 = 16 << 20;

/// What `tools/list` answers, without the braces.
pub(super) const LIST: &str = concat!(
    r#""tools":["#,
    r#"{"name":"echo","description":"Gives the text back","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},"#,
    r#"{"name":"sleep","description":"Answers after a time in milliseconds","inputSchema":{"type":"object","properties":{"ms":{"type":"integer","minimum":0,"maximum":60000}},"required":["ms"]}},"#,
    r#"{"name":"size","description":"Answers with a text of so many bytes","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer","minimum":0,"maximum":16777216}},"required":["bytes"]}},"#,
    r#"{"name":"fail","description":"Answers that it failed","inputSchema":{"type":"object","properties":{}}}"#,
    "]"
);

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Echo<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
struct Sleep {
    ms: u64,
}

#[derive(Deserialize)]
struct Size {
    bytes: u64,
}

/// Carries out `tools/call`. `more` are members of the result that the revision asks for.
pub(super) async fn call(
    origin: &Origin,
    message: &Message<'_>,
    more: &str,
) -> Result<String, Fault> {
    let call: Call<'_> = message.params()?;
    let arguments = call.arguments.map_or("{}", RawValue::get);
    let text = match &*call.name {
        "echo" => echoed(arguments)?,
        "sleep" => slept(origin, arguments).await?,
        "size" => sized(arguments)?,
        "fail" => {
            return Ok(format!(
                r#"{{"content":[{{"type":"text","text":"failed as it was asked to"}}],"isError":true{more}}}"#
            ));
        }
        _ => {
            let what = "Unknown tool: there are echo, sleep, size and fail";
            return Err(Fault::new(-32602, what));
        }
    };
    Ok(format!(
        r#"{{"content":[{{"type":"text","text":{text}}}],"isError":false{more}}}"#
    ))
}

/// Arguments of a tool.
fn read<'a, T: Deserialize<'a>>(arguments: &'a str) -> Result<T, Fault> {
    serde_json::from_str(arguments)
        .map_err(|error| Fault::new(-32602, &format!("the arguments cannot be read: {error}")))
}

/// The text as it was written: what is escaped stays escaped the same way.
fn echoed(arguments: &str) -> Result<String, Fault> {
    let Echo { text } = read(arguments)?;
    if !text.get().starts_with('"') {
        return Err(Fault::new(-32602, "text must be a string"));
    }
    Ok(text.get().to_owned())
}

async fn slept(origin: &Origin, arguments: &str) -> Result<String, Fault> {
    let Sleep { ms } = read(arguments)?;
    if ms > SLEEP_MS_MAX {
        let what = format!("ms must be at most {SLEEP_MS_MAX}");
        return Err(Fault::new(-32602, &what));
    }
    let due = Instant::now() + Duration::from_millis(ms);
    origin.timer().until(due).await;
    Ok(format!("\"slept {ms} ms\""))
}

fn sized(arguments: &str) -> Result<String, Fault> {
    let Size { bytes } = read(arguments)?;
    if bytes > SIZE_BYTES_MAX {
        let what = format!("bytes must be at most {SIZE_BYTES_MAX}");
        return Err(Fault::new(-32602, &what));
    }
    let mut left = usize::try_from(bytes).expect("at most 16 MiB");
    // A line end would need an escape, which would make the text longer.
    let line = String::from_utf8_lossy(&fill(63)).into_owned();
    let mut text = String::with_capacity(left + 2);
    text.push('"');
    while left > 0 {
        let piece = &line[..left.min(line.len())];
        text.push_str(piece);
        left -= piece.len();
    }
    text.push('"');
    Ok(text)
}
