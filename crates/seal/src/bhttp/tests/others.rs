//! Ours beside the crate `bhttp`: each reads what the other writes. The fuzz target `seal_bhttp` goes further.

use super::written::Made;
use super::*;

fn theirs(fields: &bhttp::FieldSection) -> Pairs {
    fields
        .iter()
        .map(|field| (text(field.name()), text(field.value())))
        .collect()
}

/// Cookies come from them as one field.
fn with_one_cookie(fields: &Pairs) -> Pairs {
    let mut joined = Pairs::new();
    for (name, value) in fields {
        let known = joined.iter().position(|(known, _)| known == "cookie");
        match known.filter(|_| name == "cookie") {
            Some(at) => joined[at].1 += &format!("; {value}"),
            None => joined.push((name.clone(), value.clone())),
        }
    }
    joined
}

#[test]
fn they_read_what_we_write_and_we_what_they_write() {
    for seed in 0..500 {
        let made = Made::random(&mut fastrand::Rng::with_seed(seed));
        let (bytes, seen) = (made.write(), made.seen());
        let message = bhttp::Message::read_bhttp(&mut std::io::Cursor::new(&bytes[..]));
        let message = message.unwrap();
        assert_eq!(message.content(), seen.content);
        assert_eq!(theirs(message.header()), with_one_cookie(&seen.fields));
        assert_eq!(theirs(message.trailer()), with_one_cookie(&seen.trailers));
        assert_eq!(
            message.control().status().map(|status| status.code()),
            seen.status
        );
        assert_eq!(message.informational().len(), seen.interims.len());

        for mode in [bhttp::Mode::KnownLength, bhttp::Mode::IndeterminateLength] {
            let mut out = Vec::new();
            message.write_bhttp(mode, &mut out).unwrap();
            let again = whole(made.reading(), &out).unwrap();
            assert_eq!(again.content, seen.content);
            assert_eq!(again.fields, with_one_cookie(&seen.fields));
            assert_eq!(again.trailers, with_one_cookie(&seen.trailers));
            assert_eq!((again.line, again.status), (seen.line.clone(), seen.status));
        }
    }
}
