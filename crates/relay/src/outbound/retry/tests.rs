//! Each line of the section "Retry", for a safe method, another under `local`, and another under `strict`.

use super::*;
use base::refusal::*;
use seal::{SenderId, hint::Hint};

const SENT_MS: u64 = 1_000_000;

fn attempt(sender: u8) -> Attempt {
    Attempt {
        sender: SenderId([sender; 16]),
        ctr: 7,
        ts_unix_ms: SENT_MS,
    }
}

fn call(method: &str) -> Call {
    let mut call = Call::new(method.as_bytes());
    call.sealed(attempt(1), 0);
    call
}

fn weir(code: seal::Code, server_unix_ms: u64) -> Fate {
    Fate::Weir(Answer {
        code,
        retry_after_ms: 0,
        server_unix_ms,
    })
}

fn told(next: Next) -> &'static str {
    match next {
        Next::New { .. } => "new",
        Next::RetryOf { .. } => "retry-of",
        Next::Give(code) => code.name,
    }
}

#[test]
fn each_fate_has_its_next() {
    use seal::Code::*;
    let (maybe, form) = (RELAY_MAYBE.name, RELAY_FORM.name);
    let failed = RELAY_FAILED.name;
    let dead = SENT_MS + 40_001;
    for (fate, safe, local, strict) in [
        (Fate::Unsent, "new", "new", "new"),
        (weir(Claimed, SENT_MS), "new", maybe, maybe),
        (weir(Stale, SENT_MS + 40_000), "new", maybe, "retry-of"),
        (weir(Stale, SENT_MS - 9_000), "new", maybe, "retry-of"),
        (weir(Stale, dead), "new", "new", "new"),
        (weir(Draining, SENT_MS), "retry-of", "retry-of", "retry-of"),
        (weir(Overload, SENT_MS), "retry-of", "retry-of", "retry-of"),
        (weir(Malformed, SENT_MS), form, form, form),
        (
            weir(Refused, SENT_MS),
            "relay.refused",
            "relay.refused",
            "relay.refused",
        ),
        (weir(NotReached, SENT_MS), "new", "new", "new"),
        (weir(Failed, SENT_MS), "new", maybe, "retry-of"),
        (weir(Cut, SENT_MS), "new", maybe, "retry-of"),
        (
            Fate::Plain(Advice::Handshake),
            "retry-of",
            maybe,
            "retry-of",
        ),
        (
            Fate::Plain(Advice::HandshakeOnceASecond),
            "retry-of",
            maybe,
            "retry-of",
        ),
        (Fate::Plain(Advice::OtherKey), "retry-of", maybe, "retry-of"),
        (
            Fate::Plain(Advice::OtherInstance),
            "retry-of",
            maybe,
            "retry-of",
        ),
        (Fate::Plain(Advice::Fail), failed, maybe, maybe),
        (Fate::Plain(Advice::Lost), "retry-of", maybe, "retry-of"),
        (Fate::Lost, "retry-of", maybe, "retry-of"),
    ] {
        for (method, mode, wanted) in [
            ("GET", Mode::Local, safe),
            ("HEAD", Mode::Local, safe),
            ("OPTIONS", Mode::Strict, safe),
            ("POST", Mode::Local, local),
            ("DELETE", Mode::Local, local),
            ("get", Mode::Local, local),
            ("PUT", Mode::Strict, strict),
        ] {
            let next = call(method).after(fate, mode, 5);
            assert_eq!(told(next), wanted, "{fate:?} {method} {mode:?}");
        }
    }
}

#[test]
fn three_attempts_and_no_more() {
    for (fate, method, last) in [
        (Fate::Unsent, "POST", RELAY_DOWN.name),
        (Fate::Unsent, "GET", RELAY_DOWN.name),
        (Fate::Lost, "GET", RELAY_FAILED.name),
        (weir(seal::Code::Draining, SENT_MS), "POST", RELAY_BUSY.name),
        (
            weir(seal::Code::NotReached, SENT_MS),
            "POST",
            RELAY_ORIGIN.name,
        ),
    ] {
        let mut call = call(method);
        for _ in 1..ATTEMPTS_MAX {
            assert!(!matches!(call.after(fate, Mode::Local, 5), Next::Give(_)));
        }
        assert_eq!(told(call.after(fate, Mode::Local, 5)), last);
    }
    let mut call = call("POST");
    for _ in 1..ATTEMPTS_MAX {
        assert_eq!(told(call.after(Fate::Lost, Mode::Strict, 5)), "retry-of");
    }
    let last = call.after(Fate::Unsent, Mode::Strict, 5);
    assert_eq!(
        told(last),
        RELAY_MAYBE.name,
        "an earlier attempt may have run"
    );
}

#[test]
fn every_retry_names_the_first_until_a_new_message_begins() {
    let mut call = call("POST");
    assert_eq!(call.retry_of(), None);
    call.after(weir(seal::Code::Overload, SENT_MS), Mode::Local, 5);
    assert_eq!(call.retry_of(), Some(attempt(1)));
    call.sealed(attempt(2), 6);
    call.after(Fate::Unsent, Mode::Local, 7);
    assert_eq!(call.retry_of(), Some(attempt(1)), "it was not seen");

    let mut call = self::call("POST");
    call.after(weir(seal::Code::NotReached, SENT_MS), Mode::Local, 5);
    assert_eq!(call.retry_of(), None);
    call.sealed(attempt(2), 6);
    call.after(weir(seal::Code::Draining, SENT_MS), Mode::Local, 7);
    assert_eq!(call.retry_of(), Some(attempt(2)));
}

#[test]
fn a_safe_call_whose_answers_are_lost_gets_a_message_of_its_own_in_the_end() {
    let mut call = call("GET");
    assert_eq!(told(call.after(Fate::Lost, Mode::Local, 5)), "retry-of");
    assert_eq!(told(call.after(Fate::Lost, Mode::Local, 6)), "new");
}

#[test]
fn after_a_minute_the_first_is_not_named() {
    let mut post = call("POST");
    let next = post.after(Fate::Lost, Mode::Strict, RETRY_OF_MS_MAX + 1);
    assert_eq!(told(next), RELAY_MAYBE.name);
    let mut get = call("GET");
    let next = get.after(Fate::Lost, Mode::Strict, RETRY_OF_MS_MAX + 1);
    assert_eq!(told(next), "new");
}

#[test]
fn what_is_not_at_hand_is_not_repeated() {
    let mut call = call("GET");
    call.can_repeat = false;
    assert_eq!(
        told(call.after(Fate::Lost, Mode::Local, 5)),
        RELAY_FAILED.name
    );
}

#[test]
fn hints_ask_for_a_handshake_and_sealed_answers_do_not() {
    for hint in Hint::ALL {
        let mut call = call("GET");
        call.after(Fate::Plain(Advice::after(hint.status())), Mode::Local, 5);
        let wanted = matches!(
            hint,
            Hint::UnknownTicket | Hint::OpenFailed | Hint::UnknownKid
        );
        assert_eq!(call.shake, wanted, "{hint:?}");
    }
    for code in seal::Code::ALL {
        let mut call = call("GET");
        call.after(weir(code, SENT_MS), Mode::Local, 5);
        assert!(!call.shake, "{code:?}");
    }
}
