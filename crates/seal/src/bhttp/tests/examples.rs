//! The examples of RFC 9292 §5, and those messages that stand in the known answers of SHR/1.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}

fn owned(pairs: &[(&str, &str)]) -> Pairs {
    pairs
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

/// RFC 9292 §5.1, known length.
const REQUEST_KNOWN: &str = "
    00034745 54056874 74707300 0a2f6865 6c6c6f2e 74787440 6c0a7573 65722d61
    67656e74 34637572 6c2f372e 31362e33 206c6962 6375726c 2f372e31 362e3320
    4f70656e 53534c2f 302e392e 376c207a 6c69622f 312e322e 3304686f 73740f77
    77772e65 78616d70 6c652e63 6f6d0f61 63636570 742d6c61 6e677561 67650665
    6e2c206d 690000";

/// RFC 9292 §5.1, indeterminate length, with ten zeros of padding.
const REQUEST_STREAM: &str = "
    02034745 54056874 74707300 0a2f6865 6c6c6f2e 7478740a 75736572 2d616765
    6e743463 75726c2f 372e3136 2e33206c 69626375 726c2f37 2e31362e 33204f70
    656e5353 4c2f302e 392e376c 207a6c69 622f312e 322e3304 686f7374 0f777777
    2e657861 6d706c65 2e636f6d 0f616363 6570742d 6c616e67 75616765 06656e2c
    206d6900 00000000 00000000 00000000";

/// RFC 9292 §5.2, indeterminate length, with informational responses.
const RESPONSE_STREAM: &str = "
    03406607 72756e6e 696e670a 22736c65 65702031 35220040 67046c69 6e6b233c
    2f737479 6c652e63 73733e3b 2072656c 3d707265 6c6f6164 3b206173 3d737479
    6c65046c 696e6b24 3c2f7363 72697074 2e6a733e 3b207265 6c3d7072 656c6f61
    643b2061 733d7363 72697074 0040c804 64617465 1d4d6f6e 2c203237 204a756c
    20323030 39203132 3a32383a 35332047 4d540673 65727665 72064170 61636865
    0d6c6173 742d6d6f 64696669 65641d57 65642c20 3232204a 756c2032 30303920
    31393a31 353a3536 20474d54 04657461 67142233 34616133 38372d64 2d313536
    38656230 30220d61 63636570 742d7261 6e676573 05627974 65730e63 6f6e7465
    6e742d6c 656e6774 68023531 04766172 790f4163 63657074 2d456e63 6f64696e
    670c636f 6e74656e 742d7479 70650a74 6578742f 706c6169 6e003348 656c6c6f
    20576f72 6c642120 4d792063 6f6e7465 6e742069 6e636c75 64657320 61207472
    61696c69 6e672043 524c462e 0d0a0000";

/// RFC 9292 §5.2, known length, with trailers.
const RESPONSE_KNOWN: &str = "
    0140c800 1d546869 7320636f 6e74656e 7420636f 6e746169 6e732043 524c462e
    0d0a0d07 74726169 6c657204 74657874";

const AGENT: &str = "curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3";

/// The examples leave the authority to Host, which SHR/1 does not. With it they are read.
fn with_authority(example: &str) -> Vec<u8> {
    let mut bytes = hex(example);
    let empty = bytes.iter().position(|byte| *byte == 0).map(|at| {
        // The first zero after the framing indicator.
        at + bytes[at + 1..]
            .iter()
            .position(|byte| *byte == 0)
            .map_or(0, |next| next + 1)
    });
    let at = if bytes[0] == 0 {
        empty
    } else {
        bytes.iter().position(|byte| *byte == 0)
    };
    let at = at.unwrap();
    bytes.splice(at..=at, message!["www.example.com"]);
    bytes
}

#[test]
fn requests_of_rfc_9292() {
    assert_eq!(
        check(Reading::Request, &hex(REQUEST_KNOWN)),
        Err(Fault::Authority)
    );
    assert_eq!(
        check(Reading::Request, &hex(REQUEST_STREAM)),
        Err(Fault::Authority)
    );
    let known = good(Reading::Request, &with_authority(REQUEST_KNOWN));
    let line = ["GET", "https", "www.example.com", "/hello.txt"].map(str::to_string);
    assert_eq!(known.line, Some(line));
    let fields = [
        ("user-agent", AGENT),
        ("host", "www.example.com"),
        ("accept-language", "en, mi"),
    ];
    assert_eq!(known.fields, owned(&fields));
    assert_eq!((known.length, known.content_length), (Some(0), None));
    assert!(known.content.is_empty() && known.trailers.is_empty());

    let padded = with_authority(REQUEST_STREAM);
    let stream = good(Reading::Request, &padded[..padded.len() - 10]);
    assert_eq!(
        stream,
        Seen {
            length: None,
            ..known
        }
    );
    // RFC 9292 §3.8 lets a message leave out its empty end; SHR/1 does not, so that a cut is never a clean end.
    for left_out in 1..=2 {
        let short = &padded[..padded.len() - 10 - left_out];
        assert_eq!(whole(Reading::Request, short), Err(Fault::Truncated));
    }
}

#[test]
fn responses_of_rfc_9292() {
    let stream = good(Reading::Response, &hex(RESPONSE_STREAM));
    let hints = [
        ("link", "</style.css>; rel=preload; as=style"),
        ("link", "</script.js>; rel=preload; as=script"),
    ];
    let interims = vec![
        (102, owned(&[("running", "\"sleep 15\"")])),
        (103, owned(&hints)),
    ];
    assert_eq!(stream.interims, interims);
    assert_eq!(stream.status, Some(200));
    assert_eq!((stream.content_length, stream.length), (Some(51), Some(51)));
    assert_eq!(
        text(&stream.content),
        "Hello World! My content includes a trailing CRLF.\r\n"
    );
    assert_eq!(stream.fields.len(), 8);

    let known = good(Reading::Response, &hex(RESPONSE_KNOWN));
    assert_eq!(text(&known.content), "This content contains CRLF.\r\n");
    assert_eq!(known.trailers, owned(&[("trailer", "text")]));
    let mut out = Vec::new();
    let answering = Encoder::response(&mut out, &Limits::default(), Length::Whole(29));
    let mut encoder = answering.head(&mut out, 200, [], None, false).unwrap();
    encoder.content(&mut out, &known.content).unwrap();
    encoder
        .finish(&mut out, [(&b"Trailer"[..], &b"text"[..])])
        .unwrap();
    assert_eq!(out, hex(RESPONSE_KNOWN));
}

#[test]
fn messages_of_the_known_answers() {
    let request = message![0, "GET", "https", "a.test", "/", &[0, 0, 0]];
    good(Reading::Request, &request);
    let line = request_line(b"GET", b"/", Some(b"a.test"), Scheme::Https).unwrap();
    let mut out = Vec::new();
    let limits = Limits::default();
    let encoder = Encoder::request(&mut out, &limits, &line, [], None, Length::Whole(0)).unwrap();
    encoder.finish(&mut out, []).unwrap();
    assert_eq!(out, request);

    let response = hex("01 40cc 00 00 00");
    assert_eq!(good(Reading::Response, &response).status, Some(204));
    let mut out = Vec::new();
    let answering = Encoder::response(&mut out, &limits, Length::Whole(0));
    let encoder = answering.head(&mut out, 204, [], None, false).unwrap();
    encoder.finish(&mut out, []).unwrap();
    assert_eq!(out, response);
}
