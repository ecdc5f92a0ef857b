//! The server behind the gateway in `make bench`: an MCP server that answers at once.
//!
//! It exists so that the benchmark measures what is in front of it. It speaks just enough HTTP/1.1 and MCP, of the one
//! revision that its argument names: one thread a connection, bodies with a content-length, twenty tools that all answer
//! the same 1 KB. `/mcp/20` lists `t20` to `t39`, so that servers need not have the same names; `/mcp/ask` has the tool
//! `ask`, which asks its client something and waits. `GET /counts` says how often each method was asked for. It refuses
//! what it does not expect by closing the connection, so that a wrong benchmark fails.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the answer to tools/call, as the issue's measurement says.
const ANSWER_BYTES: usize = 1024;
/// Largest request body that is read.
const BODY_BYTES_MAX: usize = 64 << 10;
const TOOLS: usize = 20;
/// Calls that wait have a connection each, so that a thread has to be small.
const STACK_BYTES: usize = 128 << 10;
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
/// Text that no scan rule has an interest in, but that each of them has to look at.
const PROSE: &str = "The quarterly survey lists each station by its distance from the weir, the mean \
depth of the channel and the days on which the gauge was read by hand. ";

/// What is counted: requests of each of these methods, and all others.
const COUNTED: [&str; 5] = [
    "tools/call",
    "tools/list",
    "initialize",
    "server/discover",
    "other",
];
static COUNTS: [AtomicU64; COUNTED.len()] = [const { AtomicU64::new(0) }; COUNTED.len()];

fn main() -> io::Result<()> {
    let named = std::env::args().nth(1);
    let is_modern = match named.as_deref() {
        None | Some(LEGACY) => false,
        Some(MODERN) => true,
        Some(_) => return Err(wrong("the argument is 2025-11-25 or 2026-07-28")),
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?.port());
    for stream in listener.incoming() {
        let stream = stream?;
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        thread.spawn(move || serve(stream, is_modern))?;
    }
    Ok(())
}

/// Answers requests until the peer goes away; an error ends only this connection.
fn serve(stream: TcpStream, is_modern: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // One file for a connection: ten thousand wait at once.
    let (mut writer, mut reader) = (&stream, BufReader::new(&stream));
    while let Some(request) = Request::read(&mut reader)? {
        let answer = request.answer(is_modern)?;
        writer.write_all(&answer)?;
    }
    Ok(())
}

/// A request, as far as it decides the answer.
#[derive(Default)]
struct Request {
    method: String,
    path: String,
    /// The fields of 2026-07-28.
    revision: String,
    mcp_method: String,
    mcp_name: String,
    body: String,
}

impl Request {
    /// One request, or nothing at the end of the connection.
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
        let mut request = Request::default();
        let (mut length, mut line) = (None, String::new());
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split(' ');
        request.method = words.next().unwrap_or_default().to_owned();
        request.path = words.next().unwrap_or_default().to_owned();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let value = value.trim();
            if is("content-length") {
                length = value.parse::<usize>().ok();
            } else if is("mcp-protocol-version") {
                request.revision = value.to_owned();
            } else if is("mcp-method") {
                request.mcp_method = value.to_owned();
            } else if is("mcp-name") {
                request.mcp_name = value.to_owned();
            }
        }
        if request.method == "POST" {
            let length = length.filter(|n| *n <= BODY_BYTES_MAX);
            let mut body = vec![0; length.ok_or_else(|| wrong("no content-length"))?];
            reader.read_exact(&mut body)?;
            request.body = String::from_utf8(body).map_err(|_| wrong("not UTF-8"))?;
        }
        Ok(Some(request))
    }

    fn answer(&self, is_modern: bool) -> io::Result<Vec<u8>> {
        match &*self.method {
            "POST" => {}
            "GET" if self.path == "/counts" => return Ok(json("200 OK", &counts())),
            // No stream of changes, and no session to end.
            _ => return Ok(empty("405 Method Not Allowed")),
        }
        let (id, method) = (field(&self.body, "id"), field(&self.body, "method"));
        let (Some(id), Some(method)) = (id, method) else {
            return Ok(empty("202 Accepted"));
        };
        let method = method.trim_matches('"');
        let nth = COUNTED.iter().position(|counted| *counted == method);
        COUNTS[nth.unwrap_or(COUNTED.len() - 1)].fetch_add(1, Ordering::Relaxed);
        if is_modern && !self.is_modern(method) {
            return Ok(json("400 Bad Request", &of_another_revision(id)));
        }
        let own = if is_modern { OWN_MEMBERS } else { "" };
        Ok(match method {
            "initialize" if !is_modern => json("200 OK", &initialized(id)),
            "server/discover" if is_modern => json("200 OK", &discovered(id)),
            "tools/list" => json("200 OK", &listed(id, &self.path, own)),
            "tools/call" if self.path == "/mcp/ask" => asked(id),
            "tools/call" => json("200 OK", &called(id, own)),
            _ => json("200 OK", &unknown(id)),
        })
    }

    /// Whether it says of itself what a request of 2026-07-28 has to say, and its fields say what its body says.
    fn is_modern(&self, method: &str) -> bool {
        let named = format!(r#""name":"{}""#, self.mcp_name);
        let is_named = method != "tools/call" || self.body.contains(&named);
        self.revision == MODERN
            && self.mcp_method == method
            && is_named
            && self
                .body
                .contains(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#)
    }
}

/// The JSON text of a scalar that no other member of its name comes before, as messages of the benchmark have it.
fn field<'b>(body: &'b str, name: &str) -> Option<&'b str> {
    let rest = body.split_once(&format!("\"{name}\":"))?.1;
    rest.split([',', '}']).next().map(str::trim)
}

/// What a result of 2026-07-28 says of itself.
const OWN_MEMBERS: &str = r#""resultType":"complete","#;

fn result(id: &str, members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{members}}}}}"#)
}

fn initialized(id: &str) -> String {
    let members = r#""protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"origin","version":"1"}"#;
    result(id, members)
}

fn discovered(id: &str) -> String {
    let members = r#""supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"private""#;
    result(id, &format!("{OWN_MEMBERS}{members}"))
}

fn of_another_revision(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32022,"message":"not that revision","data":{{"supported":["2026-07-28"]}}}}}}"#
    )
}

fn unknown(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#)
}

fn listed(id: &str, path: &str, own: &str) -> String {
    let tool = |name: String| {
        format!(
            r#"{{"name":"{name}","description":"Tool {name} of the benchmark.","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string"}},"count":{{"type":"integer"}}}}}}}}"#
        )
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    let first: usize = last.parse().unwrap_or_default();
    let tools: Vec<String> = match last {
        "ask" => vec![tool("ask".to_owned())],
        _ => (first..first + TOOLS)
            .map(|i| tool(format!("t{i:02}")))
            .collect(),
    };
    let kept = match own {
        "" => "",
        _ => r#","ttlMs":3600000,"cacheScope":"private""#,
    };
    result(id, &format!(r#"{own}"tools":[{}]{kept}"#, tools.join(",")))
}

/// The answer to a call, padded to exactly [`ANSWER_BYTES`].
fn called(id: &str, own: &str) -> String {
    let message = |text: &str| {
        let members = r#""isError":false"#;
        let content = format!(r#""content":[{{"type":"text","text":"{text}"}}]"#);
        result(id, &format!("{own}{content},{members}"))
    };
    let room = ANSWER_BYTES - message("").len();
    let text: String = PROSE.chars().cycle().take(room).collect();
    message(&text)
}

/// A question to the client of a call, on an event stream that stays open.
fn asked(id: &str) -> Vec<u8> {
    let question = format!(
        r#"{{"jsonrpc":"2.0","id":"ask-{}","method":"elicitation/create","params":{{"mode":"form","message":"Which station?","requestedSchema":{{"type":"object","properties":{{"name":{{"type":"string"}}}}}}}}}}"#,
        id.trim_matches('"')
    );
    let event = format!("event: message\ndata: {question}\n\n");
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{event}\r\n",
        event.len()
    )
    .into_bytes()
}

fn counts() -> String {
    let each = COUNTED.iter().zip(&COUNTS);
    let each: Vec<String> = each
        .map(|(name, count)| format!(r#""{name}":{}"#, count.load(Ordering::Relaxed)))
        .collect();
    format!("{{{}}}", each.join(","))
}

fn json(status: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{text}"
    )
    .into_bytes()
}

fn empty(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
