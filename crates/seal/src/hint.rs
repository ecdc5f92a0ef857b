//! The plain hints of an inbound that could not open a message, and what an outbound makes of each.
//!
//! It exists because a refusal before the seal is open has no key to be sealed with. Nothing here is
//! authenticated: whoever stands in between can say any of it, so a hint never moves a clock, never ends
//! a session and never tells whether a call was executed.

/// What the inbound says in plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// 409: the ticket does not open here, or no longer.
    UnknownTicket,
    /// 403: a handshake or a first chunk that does not open.
    OpenFailed,
    /// 421: no key of this instance has that id.
    UnknownKid,
    /// 400: the outer form is wrong.
    Malformed,
    /// 413: longer than this instance takes.
    TooLong,
    /// 426: another version of the protocol.
    Version,
    /// 503: no room, or no budget for handshakes.
    Overload,
}

/// What an outbound does after a plain answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// A new handshake beside the old session, which is kept.
    Handshake,
    /// The same, but at most one forced handshake a second for each peer.
    HandshakeOnceASecond,
    /// Try another pinned key, and nothing else.
    OtherKey,
    /// Give up: the same message fails again.
    Fail,
    /// Another instance, after a pause.
    OtherInstance,
    /// As if the answer had been lost: nobody knows what happened.
    Lost,
}

impl Hint {
    /// Every hint, in the order of the specification's table.
    pub const ALL: [Hint; 7] = [
        Hint::UnknownTicket,
        Hint::OpenFailed,
        Hint::UnknownKid,
        Hint::Malformed,
        Hint::TooLong,
        Hint::Version,
        Hint::Overload,
    ];

    /// The outer status.
    pub fn status(self) -> u16 {
        match self {
            Hint::UnknownTicket => 409,
            Hint::OpenFailed => 403,
            Hint::UnknownKid => 421,
            Hint::Malformed => 400,
            Hint::TooLong => 413,
            Hint::Version => 426,
            Hint::Overload => 503,
        }
    }

    /// The word that goes with the status.
    pub fn name(self) -> &'static str {
        match self {
            Hint::UnknownTicket => "unknown-ticket",
            Hint::OpenFailed => "open-failed",
            Hint::UnknownKid => "unknown-kid",
            Hint::Malformed => "malformed",
            Hint::TooLong => "too-long",
            Hint::Version => "version",
            Hint::Overload => "overload",
        }
    }
}

impl Advice {
    /// What to do after this outer status without a seal that opens. Everything that is not a hint of
    /// ours, a 200 among it, is a lost answer.
    pub fn after(status: u16) -> Advice {
        match status {
            409 => Advice::Handshake,
            403 => Advice::HandshakeOnceASecond,
            421 => Advice::OtherKey,
            400 | 413 | 426 => Advice::Fail,
            503 => Advice::OtherInstance,
            _ => Advice::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hint_has_its_advice_and_nothing_else_has() {
        let after: Vec<Advice> = Hint::ALL
            .iter()
            .map(|h| Advice::after(h.status()))
            .collect();
        assert_eq!(
            after,
            [
                Advice::Handshake,
                Advice::HandshakeOnceASecond,
                Advice::OtherKey,
                Advice::Fail,
                Advice::Fail,
                Advice::Fail,
                Advice::OtherInstance,
            ]
        );
        let ours: Vec<u16> = Hint::ALL.iter().map(|h| h.status()).collect();
        for status in (0..1000).filter(|status| !ours.contains(status)) {
            assert_eq!(Advice::after(status), Advice::Lost, "{status}");
        }
    }
}
