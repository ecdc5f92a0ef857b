//! The server behind the gateway in `make bench`: an MCP server that answers at once.
//!
//! It exists so that the benchmark measures what is in front of it. It speaks just enough HTTP/1.1 and MCP:
//! one thread a connection, bodies with a content-length, twenty tools that all answer the same 1 KB. It
//! refuses what it does not expect by closing the connection, so that a wrong benchmark fails.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

/// Bytes of the answer to tools/call, as the issue's measurement says.
const ANSWER_BYTES: usize = 1024;
/// Largest request body that is read.
const BODY_BYTES_MAX: usize = 64 << 10;
const TOOLS: usize = 20;
/// Text that no scan rule has an interest in, but that each of them has to look at.
const PROSE: &str = "The quarterly survey lists each station by its distance from the weir, the mean \
depth of the channel and the days on which the gauge was read by hand. ";

fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?.port());
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || serve(stream));
    }
    Ok(())
}

/// Answers requests until the peer goes away; an error ends only this connection.
fn serve(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(body) = request(&mut reader)? {
        let answer = answer(&body)?;
        writer.write_all(&answer)?;
    }
    Ok(())
}

/// One request's body, or nothing at the end of the connection.
fn request(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut length = None;
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    if !line.starts_with("POST ") {
        return Err(wrong("not a POST"));
    }
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<usize>().ok();
            }
            Some(_) => {}
            None => break,
        }
    }
    let length = length
        .filter(|n| *n <= BODY_BYTES_MAX)
        .ok_or_else(|| wrong("no content-length"))?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    String::from_utf8(body)
        .map(Some)
        .map_err(|_| wrong("not UTF-8"))
}

fn answer(body: &str) -> io::Result<Vec<u8>> {
    let Some(id) = field(body, "id") else {
        return Ok(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec());
    };
    let json = match field(body, "method") {
        Some("\"initialize\"") => initialized(id),
        Some("\"tools/list\"") => listed(id),
        Some("\"tools/call\"") => called(id),
        _ => return Err(wrong("an unexpected method")),
    };
    let length = json.len();
    Ok(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
    )
    .into_bytes())
}

/// The JSON text of a top-level scalar, as the benchmark's own messages write it.
fn field<'b>(body: &'b str, name: &str) -> Option<&'b str> {
    let rest = body.split_once(&format!("\"{name}\":"))?.1;
    rest.split([',', '}']).next().map(str::trim)
}

fn initialized(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"origin","version":"1"}}}}}}"#
    )
}

fn listed(id: &str) -> String {
    let tool = |i: usize| {
        format!(
            r#"{{"name":"t{i:02}","description":"Tool {i} of the benchmark.","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string"}},"count":{{"type":"integer"}}}}}}}}"#
        )
    };
    let tools: Vec<String> = (0..TOOLS).map(tool).collect();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{}]}}}}"#,
        tools.join(",")
    )
}

/// The answer to a call, padded to exactly [`ANSWER_BYTES`].
fn called(id: &str) -> String {
    let head =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
    let tail = r#""}],"isError":false}}"#;
    let room = ANSWER_BYTES - head.len() - tail.len();
    let text: String = PROSE.chars().cycle().take(room).collect();
    format!("{head}{text}{tail}")
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
