//! The engine of `net` beside hyper. What ours takes of bytes, hyper takes with the same meaning; and each of the two
//! reads what the other one writes.
//!
//! hyper takes more than ours (`crates/net/cases/h1-hyper.txt` says what, and why), so it is asked about no more
//! messages than ours took whole. It takes less in one matter: see [`is_beyond_hyper`].

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use net::h1::{
    ClientConnection, ConnectionSettings, Error, Framing, ServerConnection, Socket, Thread, probe,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::Runtime;
use tokio::task::{LocalSet, spawn_local};

const DUPLEX_BYTES: usize = 1 << 20;
/// Bytes of a body that are sent in one piece: few, so that there are many.
const PIECE_BYTES: usize = 100;

/// What one side made of a message: its method and target or its status, its fields by name, and its body.
#[derive(Debug, Default, PartialEq, Eq)]
struct Meaning {
    start: String,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Meaning {
    fn new<'f>(start: String, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Meaning {
        let named = |(name, value): (&[u8], &[u8])| {
            (
                String::from_utf8_lossy(name).to_ascii_lowercase(),
                value.to_vec(),
            )
        };
        let mut fields: Vec<(String, Vec<u8>)> = fields.map(named).collect();
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        Meaning {
            start,
            fields,
            body: Vec::new(),
        }
    }

    fn of_hyper(start: String, fields: &http::HeaderMap) -> Meaning {
        Meaning::new(
            start,
            fields
                .iter()
                .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())),
        )
    }

    /// Those fields that only the test has.
    fn own_fields(mut self) -> Meaning {
        self.fields.retain(|(name, _)| name.starts_with("x-"));
        self
    }
}

/// Runs a test to its end, on a clock that jumps to the next wait that is over: what would hang is late.
fn run<T>(test: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without sockets");
    }
    RUNTIME.with(|runtime| LocalSet::new().block_on(runtime, test))
}

/// What clients send, read by our server and by hyper's; and a request that each writes and the other reads.
pub fn h1_beside_hyper_server(data: &[u8]) {
    let Some((&first, sent)) = data.split_first() else {
        return;
    };
    run(async {
        let ours = our_requests(probe::Script::new(sent.chunks(8192))).await;
        if !ours.is_empty() {
            let hypers = hyper_requests(sent).await;
            for (number, ours) in ours.iter().enumerate() {
                match hypers.get(number) {
                    Some(hypers) => assert_eq!(*ours, *hypers, "two servers read two requests"),
                    None => return assert!(is_beyond_hyper(ours), "hyper does not take {ours:?}"),
                }
            }
        }
        hyper_asks_us(&Planned::of(first, sent)).await;
    });
}

/// What servers send, read by our client and by hyper's; and an answer that each writes and the other reads.
pub fn h1_beside_hyper_client(data: &[u8]) {
    let Some((&first, sent)) = data.split_first() else {
        return;
    };
    run(async {
        let method = if first & 1 == 1 { "HEAD" } else { "GET" };
        if let Ok(ours) = our_answer(probe::Script::new(sent.chunks(8192)), method).await {
            let hypers = hyper_answer(method, sent).await;
            assert_eq!(Some(ours), hypers, "two clients read two answers");
        }
        we_ask_hyper(&Planned::of(first, sent)).await;
    });
}

/// A target with characters that `http::Uri` does not hold, such as `{`. Programs send them and no reader ends the
/// target there, so ours leaves them to the origin.
fn is_beyond_hyper(request: &Meaning) -> bool {
    let target = request
        .start
        .split_once(' ')
        .expect("a method and a target")
        .1;
    target.parse::<http::Uri>().is_err()
}

/// A target as hyper tells it: with a slash where an absolute one has no path, and its scheme in small letters.
fn target_of(bytes: &[u8]) -> String {
    let target = String::from_utf8_lossy(bytes);
    target
        .parse::<http::Uri>()
        .map_or_else(|_| target.into_owned(), |uri| uri.to_string())
}

/// The requests that our server takes whole.
async fn our_requests(io: impl Socket) -> Vec<Meaning> {
    let bounds = Rc::new(ConnectionSettings::default());
    let thread = Thread::new(bounds.tick_ms());
    let mut server = ServerConnection::new(io, &thread, &bounds);
    let mut taken = Vec::new();
    while let Ok(Some(request)) = our_request(&mut server).await {
        if server
            .respond(200, [], Framing::None)
            .and_then(|()| server.end())
            .is_err()
        {
            break;
        }
        taken.push(request);
    }
    taken
}

async fn our_request(server: &mut ServerConnection<impl Socket>) -> Result<Option<Meaning>, Error> {
    let Some(head) = server.head().await? else {
        return Ok(None);
    };
    let start = format!(
        "{} {}",
        String::from_utf8_lossy(head.method()),
        target_of(head.target())
    );
    let mut meaning = Meaning::new(
        start,
        head.fields().iter().map(|field| (field.name, field.value)),
    );
    while let Some(piece) = server.piece().await? {
        meaning.body.extend_from_slice(piece);
    }
    Ok(Some(meaning))
}

/// The requests that hyper's server takes whole.
async fn hyper_requests(sent: &[u8]) -> Vec<Meaning> {
    let (mut client, server) = duplex(DUPLEX_BYTES);
    client.write_all(sent).await.expect("there is room");
    client.shutdown().await.expect("it is open");
    let taken = RefCell::new(Vec::new());
    let service = service_fn(|request: http::Request<Incoming>| async {
        let (head, body) = request.into_parts();
        let mut meaning = Meaning::of_hyper(format!("{} {}", head.method, head.uri), &head.headers);
        meaning.body = body.collect().await?.to_bytes().to_vec();
        taken.borrow_mut().push(meaning);
        Ok::<_, hyper::Error>(http::Response::new(Empty::<Bytes>::new()))
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.max_header_size(64 << 10).half_close(true);
    // How it ends is not asked: ours may have refused what comes last.
    let _ = builder
        .serve_connection(TokioIo::new(server), service)
        .await;
    taken.take()
}

/// The final answer that our client takes whole.
async fn our_answer(io: impl Socket, method: &str) -> Result<Meaning, Error> {
    let bounds = Rc::new(ConnectionSettings::default());
    let thread = Thread::new(bounds.tick_ms());
    let mut client = ClientConnection::new(io, &thread, &bounds);
    client.request(method.as_bytes(), b"/", b"a", [], Framing::None)?;
    client.end()?;
    client.flush().await?;
    final_answer(&mut client).await
}

async fn final_answer(client: &mut ClientConnection<impl Socket>) -> Result<Meaning, Error> {
    while client.answer().await?.is_informational() {}
    let head = client.answered();
    let fields = head.fields().iter().map(|field| (field.name, field.value));
    let mut meaning = Meaning::new(head.status().to_string(), fields);
    while let Some(piece) = client.piece().await? {
        meaning.body.extend_from_slice(piece);
    }
    Ok(meaning)
}

/// The final answer that hyper's client takes whole.
async fn hyper_answer(method: &str, sent: &[u8]) -> Option<Meaning> {
    let (mut server, client) = duplex(DUPLEX_BYTES);
    let request = http::Request::builder()
        .method(method)
        .uri("/")
        .header("host", "a");
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let serve = async {
        // The request first: hyper, too, takes no answer to nothing.
        let _ = server.read(&mut [0; 1024]).await;
        server.write_all(sent).await.expect("there is room");
        let _ = server.shutdown().await;
    };
    tokio::join!(hyper_asks(client, request), serve).0
}

async fn hyper_asks<B: Body<Data = Bytes> + 'static>(
    io: DuplexStream,
    request: http::Request<B>,
) -> Option<Meaning>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_header_size(64 << 10);
    let (mut sender, connection) = builder.handshake(TokioIo::new(io)).await.ok()?;
    let connection = spawn_local(connection);
    let answer = async {
        let (head, body) = sender.send_request(request).await.ok()?.into_parts();
        let mut meaning = Meaning::of_hyper(head.status.as_u16().to_string(), &head.headers);
        meaning.body = body.collect().await.ok()?.to_bytes().to_vec();
        Some(meaning)
    };
    let answer = answer.await;
    connection.abort();
    answer
}

/// A message that both sides can write: fields by the lines of the input, then a body.
struct Planned {
    is_sized: bool,
    status: u16,
    target: String,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Planned {
    fn of(first: u8, data: &[u8]) -> Planned {
        let mut parts = data.splitn(2, |byte| *byte == 0);
        let (head, body) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let lines = head.split(|byte| *byte == b'\n').take(50).enumerate();
        // Whitespace around a value is none of it.
        let field = |(number, line): (usize, &[u8])| {
            (format!("x-{}", number % 8), line.trim_ascii().to_vec())
        };
        let can_be_written =
            |(_, value): &(String, Vec<u8>)| http::HeaderValue::from_bytes(value).is_ok();
        Planned {
            is_sized: first & 2 == 2,
            status: [200, 201, 404, 500][usize::from(first >> 2) % 4],
            target: format!("/{}?{first}", first >> 4),
            fields: lines.map(field).filter(can_be_written).collect(),
            body: body.to_vec(),
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_slice()))
    }

    fn meaning(&self, start: String) -> Meaning {
        Meaning {
            body: self.body.clone(),
            ..Meaning::new(start, self.fields())
        }
    }

    fn request_start(&self) -> String {
        format!("POST {}", self.target)
    }

    fn framing(&self) -> Framing {
        match self.is_sized {
            true => Framing::Length(self.body.len() as u64),
            false => Framing::Chunked,
        }
    }

    fn hyper_fields(&self) -> http::HeaderMap {
        let made = self.fields().map(|(name, value)| {
            let name = http::HeaderName::from_bytes(name).expect("a name");
            (
                name,
                http::HeaderValue::from_bytes(value).expect("it can be written"),
            )
        });
        let mut fields = http::HeaderMap::new();
        made.for_each(|(name, value)| {
            fields.append(name, value);
        });
        fields
    }

    fn hyper_body(&self) -> Pieces {
        Pieces {
            rest: self.body.clone().into(),
            is_sized: self.is_sized,
        }
    }
}

/// A body that hyper writes in pieces, with its length or in chunks.
struct Pieces {
    rest: Bytes,
    is_sized: bool,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(size);
        Poll::Ready((size > 0).then(|| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        match self.is_sized {
            true => SizeHint::with_exact(self.rest.len() as u64),
            false => SizeHint::default(),
        }
    }
}

/// hyper's client asks our server; both read what was planned.
async fn hyper_asks_us(planned: &Planned) {
    let (client, server) = duplex(DUPLEX_BYTES);
    let mut request = http::Request::post(&planned.target).header("host", "a");
    request
        .headers_mut()
        .expect("a good request")
        .extend(planned.hyper_fields());
    let request = request.body(planned.hyper_body()).expect("a good request");
    let bounds = Rc::new(ConnectionSettings::default());
    let thread = Thread::new(bounds.tick_ms());
    let serve = async {
        let mut server = ServerConnection::new(server, &thread, &bounds);
        let asked = our_request(&mut server).await?;
        server.respond(planned.status, planned.fields(), planned.framing())?;
        for piece in planned.body.chunks(PIECE_BYTES) {
            server.body(piece).await?;
        }
        server.end()?;
        server.flush().await?;
        Ok::<_, Error>(asked)
    };
    let (answered, asked) = tokio::join!(hyper_asks(client, request), serve);
    let asked = asked
        .expect("our server reads what hyper writes")
        .expect("there is a request");
    assert_eq!(asked.own_fields(), planned.meaning(planned.request_start()));
    let answered = answered.expect("hyper's client reads what we write");
    assert_eq!(
        answered.own_fields(),
        planned.meaning(planned.status.to_string())
    );
}

/// Our client asks hyper's server; both read what was planned.
async fn we_ask_hyper(planned: &Planned) {
    let (client, server) = duplex(DUPLEX_BYTES);
    let asked = RefCell::new(None);
    let service = service_fn(|request: http::Request<Incoming>| async {
        let (head, body) = request.into_parts();
        let mut meaning = Meaning::of_hyper(format!("{} {}", head.method, head.uri), &head.headers);
        meaning.body = body.collect().await?.to_bytes().to_vec();
        *asked.borrow_mut() = Some(meaning.own_fields());
        let mut answer = http::Response::new(planned.hyper_body());
        *answer.status_mut() = http::StatusCode::from_u16(planned.status).expect("a status");
        answer.headers_mut().extend(planned.hyper_fields());
        Ok::<_, hyper::Error>(answer)
    });
    let serve =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service);
    let bounds = Rc::new(ConnectionSettings::default());
    let thread = Thread::new(bounds.tick_ms());
    let ask = async {
        let mut client = ClientConnection::new(client, &thread, &bounds);
        client.request(
            b"POST",
            planned.target.as_bytes(),
            b"a",
            planned.fields(),
            planned.framing(),
        )?;
        for piece in planned.body.chunks(PIECE_BYTES) {
            client.body(piece).await?;
        }
        client.end()?;
        client.flush().await?;
        final_answer(&mut client).await
    };
    let (served, answered) = tokio::join!(serve, ask);
    served.expect("hyper's server reads what we write");
    assert_eq!(asked.take(), Some(planned.meaning(planned.request_start())));
    let answered = answered.expect("our client reads what hyper writes");
    assert_eq!(
        answered.own_fields(),
        planned.meaning(planned.status.to_string())
    );
}
