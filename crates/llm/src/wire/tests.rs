//! What is judged of each dialect: who says what, and which calls of tools an answer has.

use base::Json;
use gate::Role;

use super::*;

fn roles(wire: &Wire, body: &str) -> Vec<Role> {
    let json = Json::read(body.as_bytes()).unwrap();
    let mut asked = AskedModel::default();
    (wire.read)(json.root(), &mut asked);
    asked.parts.iter().map(|part| part.role).collect()
}

/// The calls that stand whole in an event, those that begin in it, the texts of arguments in it, and why it is refused.
fn calls(wire: &Wire, event: &str) -> (Vec<String>, usize, usize, bool) {
    let json = Json::read(event.as_bytes()).unwrap();
    let mut delta = Delta::default();
    (wire.event)(json.root(), &mut delta);
    let whole = delta.whole_calls.iter().map(|call| call.json());
    let arguments = delta.texts.iter();
    let arguments = arguments.filter(|(key, _)| {
        matches!(
            key.kind,
            crate::answer::TextKind::Arguments | crate::answer::TextKind::Input
        )
    });
    (
        whole.collect(),
        delta.begun.len(),
        arguments.count(),
        delta.invalid.is_some(),
    )
}

#[test]
fn a_role_that_is_not_known_gives_no_orders() {
    for (wire, body) in [
        (
            &CHAT_COMPLETIONS,
            r#"{"messages":[{"role":"ipython","content":"x"}]}"#,
        ),
        (
            &RESPONSES,
            r#"{"input":[{"type":"computer_output","output":"x"}]}"#,
        ),
        (&RESPONSES, r#"{"input":[{"type":"brand_new","text":"x"}]}"#),
        (
            &RESPONSES,
            r#"{"input":[{"role":"observation","content":"x"}]}"#,
        ),
        (&MESSAGES, r#"{"messages":[{"role":"tool","content":"x"}]}"#),
        (
            &GENERATE,
            r#"{"contents":[{"role":"tool","parts":[{"text":"x"}]}]}"#,
        ),
    ] {
        assert!(roles(wire, body).contains(&Role::ToolResult), "{body}");
    }
    let user = r#"{"messages":[{"role":"user","content":"x"}]}"#;
    assert_eq!(roles(&CHAT_COMPLETIONS, user), [Role::User]);
    assert_eq!(roles(&MESSAGES, user), [Role::User]);
}

#[test]
fn every_call_that_a_client_runs_is_judged() {
    let shell = r#"{"type":"shell_call","call_id":"c","action":{"commands":["rm -rf /"]}}"#;
    let patch = r#"{"type":"apply_patch_call","operation":{"path":"a","diff":"d"}}"#;
    let brand_new = r#"{"type":"brand_new_call","what":"x"}"#;
    for item in [shell, patch, brand_new] {
        let answer = format!(r#"{{"output":[{item}]}}"#);
        let json = Json::read(answer.as_bytes()).unwrap();
        let mut said = AnswerSaid::default();
        (RESPONSES.answer)(json.root(), &mut said);
        assert!(said.calls[0].json().contains(item), "{item}");
        let done = format!(r#"{{"type":"response.output_item.done","item":{item}}}"#);
        assert!(calls(&RESPONSES, &done).0[0].contains(item));
        let ended = format!(r#"{{"type":"response.completed","response":{{"output":[{item}]}}}}"#);
        assert!(calls(&RESPONSES, &ended).0[0].contains(item));
        let added = format!(r#"{{"type":"response.output_item.added","item":{item}}}"#);
        assert_eq!(calls(&RESPONSES, &added).1, 1);
    }
    let searched = r#"{"type":"response.output_item.done","item":{"type":"web_search_call"}}"#;
    assert!(calls(&RESPONSES, searched).0.is_empty());
    for (kind, is_call) in [
        ("response.function_call_arguments.delta", 1),
        ("response.custom_tool_call_input.delta", 1),
        ("response.shell_call_command.delta", 1),
        ("response.mcp_call_arguments.delta", 0),
        ("response.output_text.delta", 0),
    ] {
        let event = format!(r#"{{"type":"{kind}","delta":"x"}}"#);
        assert_eq!(calls(&RESPONSES, &event).2, is_call, "{kind}");
    }
}

#[test]
fn a_call_is_judged_wherever_a_stream_may_have_it() {
    let old = r#"{"choices":[{"delta":{"function_call":{"name":"run","arguments":"{}"}}}]}"#;
    assert_eq!(calls(&CHAT_COMPLETIONS, old), (vec![], 1, 1, false));
    let no_index =
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"run","arguments":"{}"}}]}}]}"#;
    assert!(calls(&CHAT_COMPLETIONS, no_index).3);
    let wanted = r#"{"name":"run","arguments":{"a":1}}"#;
    let block = r#"{"type":"tool_use","id":"t","name":"run","input":{"a":1}}"#;
    let begins = format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#);
    assert_eq!(calls(&MESSAGES, &begins).0, [wanted]);
    let starts = format!(r#"{{"type":"message_start","message":{{"content":[{block}]}}}}"#);
    assert_eq!(calls(&MESSAGES, &starts).0, [wanted]);
    let empty = begins.replace(r#"{"a":1}"#, "{}");
    assert_eq!(calls(&MESSAGES, &empty), (vec![], 1, 0, false));
    let two = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a"},"function_call":{"name":"b"}}]}}]}"#;
    assert_eq!(calls(&STREAM_GENERATE, two).0.len(), 2);
}

#[test]
fn of_two_bounds_the_larger_is_reserved() {
    let body = r#"{"generationConfig":{"maxOutputTokens":9,"candidateCount":3},"generation_config":{"max_output_tokens":4}}"#;
    let json = Json::read(body.as_bytes()).unwrap();
    let mut asked = AskedModel::default();
    (GENERATE.read)(json.root(), &mut asked);
    assert_eq!((asked.output_max, asked.answers), (Some(9), Some(3)));
}
