//! What a model says in one step, gathered piece by piece within bounds.
//!
//! A model may say anything: calls without names, ids that stand twice, thousands of calls, megabytes. What is gathered is bounded, and
//! each call that is kept has an id of its own.

use std::collections::HashSet;

use base::refusal;

use crate::event::{StepUsage, ToolCall};
use crate::ports::{ModelPiece, PortFailure};

/// Calls of one step that are made; more are left out.
pub(crate) const CALLS_MAX: usize = 64;
/// Bytes that a model may say in one step.
const STEP_BYTES_MAX: usize = 4 << 20;
/// Longest id of a call that is kept as the model wrote it, and longest name of a tool.
const WORD_CHARS_MAX: usize = 256;

/// What a model said so far.
#[derive(Debug, Default)]
pub(crate) struct StepSaid {
    pub(crate) text: String,
    calls: Vec<(u64, ToolCall)>,
    pub(crate) usage: StepUsage,
    /// Calls that were left out.
    pub(crate) left_out: bool,
    bytes: usize,
}

impl StepSaid {
    /// Takes a piece.
    ///
    /// # Errors
    /// It says more than is taken.
    pub(crate) fn take(&mut self, piece: &ModelPiece) -> Result<(), PortFailure> {
        self.bytes += match piece {
            ModelPiece::Text(text) | ModelPiece::Reasoning(text) => text.len(),
            ModelPiece::Call {
                id,
                name,
                arguments,
                ..
            } => {
                let words = id.iter().chain(name).map(String::len);
                words.sum::<usize>() + arguments.len()
            }
            ModelPiece::Usage(_) => 0,
        };
        if self.bytes > STEP_BYTES_MAX {
            return Err(invalid(format!(
                "the model said more than {STEP_BYTES_MAX} bytes in one step"
            )));
        }
        match piece {
            ModelPiece::Text(text) => self.text.push_str(text),
            ModelPiece::Reasoning(_) => {}
            ModelPiece::Usage(usage) => self.usage = *usage,
            ModelPiece::Call {
                index,
                id,
                name,
                arguments,
            } => self.call(*index, id.as_deref(), name.as_deref(), arguments),
        }
        Ok(())
    }

    fn call(&mut self, index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) {
        let at = self.calls.iter().position(|(of, _)| *of == index);
        let at = match at {
            Some(at) => at,
            None if self.calls.len() < CALLS_MAX => {
                let call = ToolCall {
                    id: String::new(),
                    tool: String::new(),
                    arguments: String::new(),
                };
                self.calls.push((index, call));
                self.calls.len() - 1
            }
            None => {
                self.left_out = true;
                return;
            }
        };
        let call = &mut self.calls[at].1;
        if call.id.is_empty() {
            id.unwrap_or_default().clone_into(&mut call.id);
        }
        if call.tool.is_empty() {
            name.unwrap_or_default().clone_into(&mut call.tool);
        }
        call.arguments.push_str(arguments);
    }

    /// The calls, each with an id of its own.
    ///
    /// # Errors
    /// The model said nothing at all.
    pub(crate) fn calls(&mut self, step: u64) -> Result<Vec<ToolCall>, PortFailure> {
        if self.calls.is_empty() && self.text.is_empty() {
            return Err(invalid("the model said nothing".to_owned()));
        }
        let mut ids = HashSet::new();
        let mut calls = Vec::new();
        for (number, (_, mut call)) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            let is_plain = (1..=WORD_CHARS_MAX).contains(&call.id.len());
            if !is_plain || ids.contains(&call.id) {
                call.id = format!("call_{step}_{number}");
            }
            ids.insert(call.id.clone());
            call.tool = call.tool.chars().take(WORD_CHARS_MAX).collect();
            if call.arguments.trim().is_empty() {
                call.arguments = "{}".to_owned();
            }
            calls.push(call);
        }
        Ok(calls)
    }
}

fn invalid(message: String) -> PortFailure {
    PortFailure {
        code: refusal::RUN_MODEL.name.to_owned(),
        message,
        call: None,
        retry_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(index: u64, id: &str, name: &str, arguments: &str) -> ModelPiece {
        ModelPiece::Call {
            index,
            id: Some(id.into()),
            name: Some(name.into()),
            arguments: arguments.into(),
        }
    }

    #[test]
    fn calls_come_in_pieces_and_get_ids_of_their_own() {
        let mut said = StepSaid::default();
        for piece in [
            piece(0, "a", "read", "{\"p\""),
            piece(1, "a", "write", ""),
            piece(0, "", "", ":1}"),
            piece(2, "", "read", " "),
        ] {
            said.take(&piece).unwrap();
        }
        let calls = said.calls(4).unwrap();
        let ids: Vec<&str> = calls.iter().map(|call| &*call.id).collect();
        assert_eq!(ids, ["a", "call_4_1", "call_4_2"]);
        assert_eq!(calls[0].arguments, "{\"p\":1}");
        assert_eq!(calls[2].arguments, "{}");
    }

    #[test]
    fn a_model_is_bounded() {
        let mut said = StepSaid::default();
        for index in 0..10_000 {
            said.take(&piece(index, "x", "read", "{}")).unwrap();
        }
        assert!(said.left_out);
        assert_eq!(said.calls(1).unwrap().len(), CALLS_MAX);
        let long = ModelPiece::Text("x".repeat(STEP_BYTES_MAX + 1));
        let failed = StepSaid::default().take(&long).unwrap_err();
        assert_eq!(failed.code, "run.model");
        assert_eq!(
            StepSaid::default().calls(1).unwrap_err().message,
            "the model said nothing"
        );
    }
}
