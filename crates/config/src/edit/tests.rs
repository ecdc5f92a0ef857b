use serde_json::{Value, json};

use super::*;

fn weir() -> Vec<(String, Value)> {
    vec![("weir".to_owned(), json!({ "url": "u" }))]
}

/// Checks what is inserted, and that taking it out again gives the first text.
fn check(text: &str, with: &str) {
    let inserted = insert(text, "s", &weir()).unwrap();
    assert_eq!(inserted, with);
    let and_root = !text.contains("\"s\"");
    let removed = remove(&inserted, "s", &["weir".to_owned()], and_root).unwrap();
    assert_eq!(removed, text);
}

#[test]
fn members_are_added_as_the_text_is_laid_out() {
    check(
        "{\n  \"s\": {\n    \"a\": 1\n  }\n}\n",
        "{\n  \"s\": {\n    \"a\": 1,\n    \"weir\": {\n      \"url\": \"u\"\n    }\n  }\n}\n",
    );
    check(
        "{\r\n\t\"s\": {\r\n\t\t\"a\": 1\r\n\t}\r\n}",
        "{\r\n\t\"s\": {\r\n\t\t\"a\": 1,\r\n\t\t\"weir\": {\r\n\t\t\t\"url\": \"u\"\r\n\t\t}\r\n\t}\r\n}",
    );
    check(
        r#"{"s":{"a":1},"t":2}"#,
        r#"{"s":{"a":1, "weir": {"url":"u"}},"t":2}"#,
    );
    check(
        "\u{feff}{\n    \"t\": [1]\n}",
        "\u{feff}{\n    \"t\": [1],\n    \"s\": {\n        \"weir\": {\n            \"url\": \"u\"\n        }\n    }\n}",
    );
}

#[test]
fn comments_and_trailing_commas_stay_where_they_are() {
    check(
        "// mine\n{\n  \"s\": {\n    \"a\": 1, // \"b\": {\n  },\n}\n",
        "// mine\n{\n  \"s\": {\n    \"a\": 1, // \"b\": {\n    \"weir\": {\n      \"url\": \"u\"\n    },\n  },\n}\n",
    );
    check(
        "{\n  \"s\": {\n    \"a\": 1 /* one\n two */ // more\n    // last\n  }\n}\n",
        "{\n  \"s\": {\n    \"a\": 1, /* one\n two */ // more\n    \"weir\": {\n      \"url\": \"u\"\n    }\n    // last\n  }\n}\n",
    );
}

#[test]
fn an_empty_object_is_filled() {
    let add = |text| insert(text, "s", &weir()).unwrap();
    let filled = "{\"s\": {\n  \"weir\": {\n    \"url\": \"u\"\n  }\n}}";
    assert_eq!(add("{\"s\": {}}"), filled);
    assert_eq!(
        add("{\n  \"s\": {\n  }\n}"),
        "{\n  \"s\": {\n    \"weir\": {\n      \"url\": \"u\"\n    }\n  }\n}"
    );
    let commented = add("{\"s\": { // none yet\n}}");
    assert!(commented.contains("// none yet\n  \"weir\""), "{commented}");
    let fed = add("{\"s\": { // a form feed \u{c}\n}}");
    assert!(strict(&fed).is_ok(), "{fed}");
    for nothing in ["", "  \n", "// only this"] {
        let text = add(nothing);
        let read: Value = serde_json::from_str(&strict(&text).unwrap()).unwrap();
        assert_eq!(read, json!({ "s": { "weir": { "url": "u" } } }));
    }
}

#[test]
fn what_cannot_be_edited_is_refused() {
    let refused = |text| insert(text, "s", &weir()).unwrap_err();
    let syntax = |text| match refused(text) {
        EditError::Syntax { line, .. } => line,
        other => panic!("{text}: {other}"),
    };
    assert_eq!(syntax("{\n  \"s\": {,}\n}"), 2);
    assert_eq!(syntax("{ /* a\n\n */ \"s\": x }"), 3);
    assert_eq!(syntax("{\n/* no end"), 2);
    assert_eq!(syntax("{\"s\": {}} {}"), 1);
    assert_eq!(syntax("{\"s\": \"no end"), 1);
    assert_eq!(syntax("{\"a\": [,]}"), 1);
    // A form feed is a space to Rust, and none to JSON.
    assert_eq!(syntax("\u{feff}\u{c} // none"), 1);
    assert_eq!(refused("[]"), EditError::NotObject(None));
    assert_eq!(
        refused("{\"s\": []}"),
        EditError::NotObject(Some("s".into()))
    );
    assert_eq!(
        refused("{\"s\": {}, \"\\u0073\": {}}"),
        EditError::Twice("s".into())
    );
    assert_eq!(
        refused("{\"s\": {\"weir\": 1}}"),
        EditError::Exists("weir".into())
    );
    assert_eq!(refused(&"[".repeat(100)), EditError::Deep);
}

#[test]
fn only_the_named_members_go() {
    let text = "{\"s\": {\"weir-a\": 1, \"mine\": 2, \"weir-b\": 3}}";
    let names = [
        "weir-a".to_owned(),
        "weir-b".to_owned(),
        "weir-c".to_owned(),
    ];
    let removed = remove(text, "s", &names, true).unwrap();
    assert_eq!(removed, "{\"s\": {\"mine\": 2}}");
    let gone = remove("{\"s\": {\"weir-a\": 1}}", "s", &names, true).unwrap();
    assert_eq!(gone, "{}");
}
