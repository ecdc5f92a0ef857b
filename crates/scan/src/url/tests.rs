//! Whole URLs, by the tables under `cases/`.

use super::*;
use crate::patterns::rules;

fn judged(rules: &UrlRules, url: &str) -> (UrlParts, Vec<UrlHit>) {
    let mut hits = Vec::new();
    let parts = rules.judge(url, &mut hits);
    for hit in &hits {
        assert!(url.get(hit.span.clone()).is_some(), "{url}: {hit:?}");
    }
    (parts, hits)
}

fn found(url: &str) -> Vec<&'static str> {
    let (_, hits) = judged(&UrlRules::default(), url);
    hits.iter().map(|hit| hit.rule).collect()
}

fn cases(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[test]
fn what_agents_ask_every_day_passes() {
    let rules = UrlRules::default();
    let mut wrong = Vec::new();
    let mut count = 0;
    for url in cases(include_str!("../../cases/urls-allowed.txt")) {
        count += 1;
        let (_, hits) = judged(&rules, url);
        if let Some(hit) = hits.first() {
            wrong.push(format!(
                "{} finds `{}` in {url}",
                hit.rule,
                &url[hit.span.clone()]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 200, "{count}");
}

#[test]
fn what_must_not_be_asked_is_found_by_its_rule() {
    let mut wrong = Vec::new();
    for line in cases(include_str!("../../cases/urls-refused.txt")) {
        let (rule, url) = line.split_once(' ').unwrap();
        let url = url.replace("\\u{200b}", "\u{200b}");
        if !found(&url).contains(&rule) {
            wrong.push(format!("{rule} does not find {url}: {:?}", found(&url)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_listed_and_has_cases() {
    let cases = include_str!("../../cases/urls-refused.txt");
    let listed = rules()
        .iter()
        .filter(|rule| rule.class == crate::rule::Class::Url);
    // The others need settings, a length or a time.
    let others = [
        "url_length",
        "url_parts",
        "url_not_allowed",
        "url_rate",
        "url_data",
        "budget_entropy",
    ];
    for rule in listed.filter(|rule| rule.regex.is_empty() && !others.contains(&rule.id)) {
        let count = cases
            .lines()
            .filter(|line| line.split(' ').next() == Some(rule.id))
            .count();
        assert!(count >= 3, "{}: {count} cases", rule.id);
    }
}

#[test]
fn control_characters_hide_nothing() {
    for url in [
        "http://127.0.\t0.1/",
        "http://127.0.0.1\n/",
        "ht\ntp://127.0.0.1/",
        "http://a.org/\r\nX: y",
        "http://a.org/\0",
        "http://a.org/?\x1b[0m",
    ] {
        assert!(
            found(url).contains(&"url_control"),
            "{url:?}: {:?}",
            found(url)
        );
    }
    assert!(found("http://127.0.\t0.1/").contains(&"url_internal"));
    assert_eq!(
        found(" https://example.com/ \n"),
        [""; 0],
        "clients drop what is around"
    );
}

#[test]
fn length_comes_first_and_alone() {
    let long = format!("http://127.0.0.1/{}", "a".repeat(2048));
    assert_eq!(found(&long), ["url_length"]);
    assert_eq!(judged(&UrlRules::default(), &long).0, UrlParts::default());
}

#[test]
fn numbers_of_parts_are_bounded() {
    let labels = format!("https://{}example.com/", "a.".repeat(64));
    let segments = format!("https://example.com{}", "/a".repeat(257));
    let parameters = format!("https://example.com/?{}", "a=1&".repeat(257));
    for url in [labels, segments, parameters] {
        assert_eq!(found(&url), ["url_parts"], "{url}");
    }
    let hits = format!("https://example.com{}", "/..".repeat(255));
    assert_eq!(found(&hits).len(), FINDINGS_MAX);
}

#[test]
fn lists_decide() {
    let mut rules = UrlRules::default();
    let mut allowed = HostList::default();
    allowed.add("example.com").unwrap();
    allowed.add("127.0.0.0/8").unwrap();
    rules.allowed = Some(allowed);
    rules.blocked.add("bad.example.com").unwrap();
    rules.internal_allowed.add("127.0.0.1").unwrap();
    rules.internal_allowed.add("build.local").unwrap();
    for (url, hits) in [
        ("https://example.com/", &[][..]),
        ("https://www.example.com/", &[]),
        ("https://bad.example.com/", &["url_blocked"]),
        ("https://x.bad.example.com/", &["url_blocked"]),
        ("https://example.org/", &["url_not_allowed"]),
        ("https://notexample.com/", &["url_not_allowed"]),
        ("http://127.0.0.1/", &[]),
        ("http://127.0.0.2/", &["url_internal"]),
        ("http://x.build.local/", &["url_not_allowed"]),
    ] {
        let found: Vec<_> = judged(&rules, url).1.iter().map(|hit| hit.rule).collect();
        assert_eq!(found, hits, "{url}");
    }
}

#[test]
fn a_disguise_is_named() {
    for (url, disguise) in [
        ("http://127.0.0.1/", ""),
        ("http://2130706433/", "notation"),
        ("http://loc%61lhost/", "percent"),
        ("http://ｌocalhost/", "unicode"),
        ("https://example.com/%2e%2e/", "percent"),
        ("https://example.com\\@example.org/", "backslash"),
    ] {
        assert_eq!(
            judged(&UrlRules::default(), url).1[0].disguise,
            disguise,
            "{url}"
        );
    }
}

#[test]
fn what_looks_random_is_counted_even_where_it_is_excused() {
    let bits = |url| judged(&UrlRules::default(), url).0.random_bits;
    assert_eq!(bits("https://example.com/how-to-parse-json?lang=en"), 0);
    assert!(bits("https://example.com/550e8400-e29b-41d4-a716-446655440000") >= 100);
    assert!(bits("https://example.com/?cursor=Zk83hQx0mPwT2vRb9LcN4sYd") >= 100);
    assert!(bits("https://example.com/?a=Zk83hQx0mPwT&b=2vRb9LcN4sYd") >= 80);
}

#[test]
fn no_text_makes_it_slow_or_panic() {
    let parts = [
        "https://",
        "/",
        "%25",
        "..",
        "@",
        "[",
        "]",
        ":",
        "xn--",
        "\\",
        "?",
        "&",
        "=",
        "#",
        "。",
        "а",
        "%",
        "0x",
        ".",
        "aB3",
        "%c0%ae",
        "\u{200b}",
        "-",
        "99999999999999999999",
    ];
    let rules = UrlRules::default();
    let mut seed = 7u32;
    for _ in 0..20_000 {
        let mut url = String::from(if seed & 1 == 0 { "https://" } else { "" });
        for _ in 0..seed % 12 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            url.push_str(parts[(seed >> 16) as usize % parts.len()]);
        }
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        judged(&rules, &url);
    }
    for part in parts {
        judged(
            &rules,
            &format!("https://example.com/{}", part.repeat(2000 / part.len())),
        );
        judged(
            &rules,
            &format!("https://{}", part.repeat(2000 / part.len())),
        );
    }
}

#[test]
fn a_blocked_host_ends_the_reading_only_where_it_is_refused() {
    let mut rules = UrlRules::default();
    rules.blocked.add("blocked.test").unwrap();
    rules.blocked.add("8.8.8.8").unwrap();
    let judged = |url: &str, refused: bool| {
        let mut hits = Vec::new();
        rules.judge_until(url, &mut hits, || refused);
        hits.iter().map(|hit| hit.rule).collect::<Vec<_>>()
    };
    let url = "https://me:you@a.BLOCKED.test./x?y=aB3xK9mQ7pR2wE5tY8uI0oL4hG6fD1sZ";
    assert_eq!(judged(url, true), ["url_blocked"]);
    let all = ["url_userinfo", "url_blocked", "url_entropy_query"];
    assert_eq!(judged(url, false), all);
    assert_eq!(judged("https://134744072/..", true), ["url_blocked"]);
    // What is longer than a URL may be, or of another scheme, is not looked up.
    let long = format!("https://blocked.test/{}", "x".repeat(LENGTH_MAX_DEFAULT));
    assert_eq!(judged(&long, true), ["url_length"]);
    assert_eq!(judged("gopher://blocked.test/", true), ["url_scheme"]);
    assert!(!judged("https://notblocked.test/", true).contains(&"url_blocked"));
}

#[test]
fn a_block_that_only_warns_hides_nothing() {
    let mut settings = crate::Settings::default();
    settings.urls.blocked.add("blocked.test").unwrap();
    let found = |settings: &crate::Settings| {
        let engine = crate::Engine::new(settings.clone(), [7; 32]);
        let url = "https://blocked.test/?y=aB3xK9mQ7pR2wE5tY8uI0oL4hG6fD1sZ";
        let report = engine.url(crate::Direction::Outgoing, url, None).unwrap();
        let ids = report.findings.iter().map(|finding| finding.rule.id);
        (report.action, ids.collect::<Vec<_>>())
    };
    assert_eq!(
        found(&settings),
        (crate::Action::Refuse, vec!["url_blocked"])
    );
    settings
        .set("url_blocked", None, crate::Action::Warn)
        .unwrap();
    let all = vec!["url_blocked", "url_entropy_query"];
    assert_eq!(found(&settings), (crate::Action::Refuse, all));
}
