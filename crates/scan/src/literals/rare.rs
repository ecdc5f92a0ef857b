//! Which bytes of a literal ordinary text has least often.
//!
//! A guess is enough: a bad one costs time and hides nothing.

/// How often two signs stand in a row, in documents and source code: nine is a thirtieth of all pairs, and
/// each step less is a third as often. Letters, then all other signs, then digits; the rows are the first of two.
const PAIRS: [&[u8; 28]; 28] = [
    b"4677456363577716277855646475",
    b"6453632165363463055362006175",
    b"7454752760664284266763214175",
    b"6446745463243463156453324185",
    b"7577665453477846687746676395",
    b"6444655070254673065550114175",
    b"4332724570154552155451212174",
    b"7323731160234463054761104074",
    b"6676666131567876267826060665",
    b"4010600140100141015140000031",
    b"4243633160032432125332213062",
    b"7356764270372474146664316173",
    b"7535724160155267125463214073",
    b"7367757362654565137765425385",
    b"5666465254667866086666642473",
    b"7244723550563266277673214064",
    b"1022110000140102122261100151",
    b"7456856371556674067775426183",
    b"6364843671455566456865415284",
    b"7366853871255477076763456385",
    b"5765655060176736077732140366",
    b"6131724060103045022221031155",
    b"6111512660131551055310402062",
    b"5242531240113225013630232065",
    b"4433432240244556245533312273",
    b"4202621140322040111020003343",
    b"8787787786677778488877766598",
    b"5555552231322322133343242189",
];

/// The row of each byte in them.
const SIGNS: [u8; 256] = {
    let mut signs = [26; 256];
    let mut byte = 0;
    while byte < signs.len() {
        let letter = (byte as u8).to_ascii_lowercase();
        match letter {
            b'a'..=b'z' => signs[byte] = letter - b'a',
            b'0'..=b'9' => signs[byte] = 27,
            _ => {}
        }
        byte += 1;
    }
    signs
};

/// Where the rarest bytes of a literal begin, so many in a row.
pub(super) fn gram(literal: &[u8], bytes: usize) -> usize {
    let last = literal.len() - bytes;
    let pair = |start: usize| often(literal[start], literal[start + 1]);
    let mut pairs: u32 = (0..bytes - 1).map(pair).sum();
    // The first letters and the last of a word are shared with many others.
    let mut best = (pairs, last / 2, 0);
    for start in 1..=last {
        pairs = pairs + pair(start + bytes - 2) - pair(start - 1);
        best = best.min((pairs, start.abs_diff(last / 2), start));
    }
    best.2
}

fn often(first: u8, second: u8) -> u32 {
    let sign = |byte: u8| usize::from(SIGNS[usize::from(byte)]);
    // Two bytes of one letter of another script say nothing.
    match first.is_ascii() || second.is_ascii() {
        true => u32::from(PAIRS[sign(first)][sign(second)] - b'0'),
        false => 0,
    }
}
