//! Calls that go on as streams, piece by piece, while stops, the directory and the clock change.

use base::record::{CallEnd, Usage};
use gate::{CallEnding, Channel, Passed, Role};

use super::{SECRET_PARTS, World};

/// A stream, and what its client has of it.
pub(crate) struct Running {
    passed: Passed,
    channel: Channel,
    agent: usize,
    /// Tokens that are reserved for it.
    reserved: u64,
    client_has: Vec<u8>,
}

impl Running {
    pub(crate) fn new(passed: Passed, agent: usize, reserved: u64) -> Running {
        Running {
            passed,
            channel: Channel::new(Role::ToolResult, "result"),
            agent,
            reserved,
            client_has: Vec::new(),
        }
    }

    /// Ends it before its end: it costs what was reserved.
    pub(crate) fn cut(self, world: &mut World) {
        world.costs(self.agent, self.reserved, self.reserved);
        drop(self.passed);
    }

    /// Ends it, and notes what it cost: what was counted where it is complete, or else at least what was reserved.
    fn end(self, world: &mut World, end: CallEnd, output: u64) {
        let tokens = match end {
            CallEnd::Complete => output,
            _ => output.max(self.reserved),
        };
        world.costs(self.agent, self.reserved, tokens);
        let usage = Usage {
            output,
            ..Usage::default()
        };
        self.passed.end(CallEnding {
            usage: Some(usage),
            ..CallEnding::of(end)
        });
    }

    /// Takes a piece, or the end of the text, and checks what the client has of it.
    fn take(&mut self, piece: Option<&[u8]>) -> bool {
        let (passed, out) = (&mut self.passed, &mut self.client_has);
        let taken = match piece {
            Some(piece) => self.channel.push(passed, piece, out),
            None => self.channel.finish(passed, out),
        };
        let secret = SECRET_PARTS.concat();
        let mut had = self.client_has.windows(secret.len());
        assert!(
            !had.any(|had| had == secret.as_bytes()),
            "a secret came through"
        );
        taken.is_ok()
    }
}

/// Lets each stream go on by a piece, as lanes do it: one that is no longer in force ends, and nothing of it passes.
pub(crate) fn go_on(world: &mut World, running: Vec<Running>) -> Vec<Running> {
    let mut still = Vec::new();
    for mut stream in running {
        let in_force = world.in_force(stream.agent);
        assert_eq!(
            stream.passed.is_in_force(),
            in_force,
            "what ended a stream is noticed"
        );
        if !in_force {
            stream.cut(world);
            continue;
        }
        // The two parts of a secret may come in pieces of their own.
        let pieces = [
            "some words ",
            SECRET_PARTS[0],
            SECRET_PARTS[1],
            "more of them ",
        ];
        let piece = pieces[world.random.below(pieces.len())];
        let output = world.random.below(400) as u64;
        if !stream.take(Some(piece.as_bytes())) {
            stream.end(world, CallEnd::Refused, output);
        } else if world.random.one_in(4) {
            let end = match stream.take(None) {
                true => CallEnd::Complete,
                false => CallEnd::Refused,
            };
            stream.end(world, end, output);
        } else {
            still.push(stream);
        }
    }
    still
}
