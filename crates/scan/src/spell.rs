//! How rules are spelled: as the texts that they are looked for in, once [`crate::fold`] has folded them.
//!
//! So whoever writes a rule writes it as its readers write.

use unicode_normalization::char::decompose_canonical;

use crate::east;

/// A rule's expression or literal as texts are folded: without accents, in simplified Chinese, and in lower case where
/// it is not ASCII.
pub(crate) fn spelled(rule: &str) -> String {
    rule.chars().map(letter).collect()
}

/// Characters of an expression that is put together of parts.
const WHOLE_BYTES_MAX: usize = 128 << 10;

/// An expression with each `{{name}}` in it replaced by the part of that name, and so on in the part.
///
/// Errors: there is no such part, or too much comes out.
pub(crate) fn whole<'p>(
    expression: &str,
    part: impl Fn(&str) -> Option<&'p str>,
) -> Result<String, String> {
    let mut text = expression.replace('\n', "");
    let mut from = 0;
    while let Some(start) = text[from..].find("{{").map(|at| from + at) {
        let inside = &text[start + 2..];
        let length = inside
            .bytes()
            .take_while(|byte| byte.is_ascii_lowercase() || *byte == b'_');
        let length = length.count();
        if length == 0 || !inside[length..].starts_with("}}") {
            from = start + 1;
            continue;
        }
        let name = &inside[..length];
        let part = part(name).ok_or_else(|| format!("there is no part `{name}`"))?;
        text.replace_range(start..start + length + 4, &part.replace('\n', ""));
        from = start;
        if text.len() > WHOLE_BYTES_MAX {
            return Err(format!("its parts make more than {WHOLE_BYTES_MAX} bytes"));
        }
    }
    Ok(text)
}

fn letter(character: char) -> char {
    if character.is_ascii() {
        return character;
    }
    if let Some(plain) = latin(character) {
        return char::from(plain);
    }
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => east::han(lower),
        _ => character,
    }
}

/// The plain letter of a Latin one that has an accent, or is one of those that are written for it.
pub(crate) fn latin(character: char) -> Option<u8> {
    Some(match character {
        'ß' => b's',
        'ø' | 'ɵ' | 'ᴏ' => b'o',
        'Ø' => b'O',
        'đ' | 'ð' | 'ᴅ' => b'd',
        'Đ' => b'D',
        'ł' | 'ʟ' => b'l',
        'Ł' => b'L',
        'ħ' | 'ʜ' => b'h',
        'ı' | 'ɪ' => b'i',
        'ŧ' | 'ᴛ' => b't',
        'ɑ' | 'ᴀ' => b'a',
        'ʙ' => b'b',
        'ᴄ' => b'c',
        'ᴇ' => b'e',
        'ꜰ' => b'f',
        'ɢ' => b'g',
        'ᴊ' => b'j',
        'ᴋ' => b'k',
        'ᴍ' => b'm',
        'ɴ' => b'n',
        'ᴘ' => b'p',
        'ʀ' => b'r',
        'ꜱ' => b's',
        'ᴜ' => b'u',
        'ᴠ' => b'v',
        'ᴡ' => b'w',
        'ʏ' => b'y',
        'ᴢ' => b'z',
        '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => return base(character),
        _ => return None,
    })
}

/// The letter under accents, where it is ASCII.
fn base(character: char) -> Option<u8> {
    let mut base = None;
    decompose_canonical(character, |part| {
        base = base.or(Some(part));
    });
    let base = base.filter(char::is_ascii_alphabetic)?;
    u8::try_from(base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_put_together_of_its_parts() {
        let part = |name: &str| match name {
            "agent" => Some("(?:ai|\n{{model}})"),
            "model" => Some("llms?"),
            "again" => Some("x{{again}}"),
            _ => None,
        };
        let whole = |expression| whole(expression, part);
        assert_eq!(
            whole("a {{agent}}\n: {{model}}"),
            Ok("a (?:ai|llms?): llms?".into())
        );
        assert_eq!(whole(r"\{{2}[^}]{{1,3}}"), Ok(r"\{{2}[^}]{{1,3}}".into()));
        assert!(whole("{{none}}").unwrap_err().contains("`none`"));
        assert!(whole("{{again}}").is_err());
    }

    #[test]
    fn rules_are_spelled_as_texts_are_folded() {
        let rule = "(?:Exécute|größe|Ẽ) {0,3}Пароль 「無視」 ½ 한국어";
        assert_eq!(
            spelled(rule),
            "(?:Execute|grose|E) {0,3}пароль 「无视」 ½ 한국어"
        );
        assert_eq!(spelled(&spelled(rule)), spelled(rule));
    }
}
