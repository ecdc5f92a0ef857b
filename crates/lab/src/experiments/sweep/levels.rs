//! Which levels are tried: a list, or what the sweep finds by itself.

use std::fmt;

use super::LEVELS_MAX;

/// Shares of what the knee carried, as arrivals. 60 % is what one is told to run at, so it is measured.
pub(super) const SHARES: &[f64] = &[0.2, 0.4, 0.6, 0.8, 0.9, 1.0];
/// Most connections or arrivals a second.
const LEVEL_MAX: f64 = 10_000_000.0;

/// Levels as they are asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Levels {
    Auto,
    None,
    These(Vec<f64>),
}

impl Levels {
    /// Reads `auto`, `none`, or numbers that rise.
    pub(super) fn read(text: &str) -> Result<Levels, String> {
        match text {
            "auto" => return Ok(Levels::Auto),
            "none" => return Ok(Levels::None),
            _ => {}
        }
        let wrong =
            || format!("`{text}` is neither auto nor none nor numbers that rise, such as 8,16,32");
        let read = text.split(',').map(|number| number.trim().parse::<f64>());
        let levels: Vec<f64> = read.collect::<Result<_, _>>().map_err(|_| wrong())?;
        let are_fit = levels.iter().all(|l| *l > 0.0 && *l <= LEVEL_MAX);
        match are_fit && levels.is_sorted_by(|a, b| a < b) {
            _ if levels.len() > LEVELS_MAX => Err(format!(
                "{} levels are more than {LEVELS_MAX}",
                levels.len()
            )),
            true => Ok(Levels::These(levels)),
            false => Err(wrong()),
        }
    }

    /// How many there are, where that is known.
    pub(super) fn count(&self) -> Option<usize> {
        match self {
            Levels::Auto => None,
            Levels::None => Some(0),
            Levels::These(levels) => Some(levels.len()),
        }
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Levels::Auto => f.write_str("auto"),
            Levels::None => f.write_str("none"),
            Levels::These(levels) => {
                let texts: Vec<String> = levels.iter().map(f64::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

/// 2, 4, … and the last one itself: by how many times it is asked for too much.
pub(in crate::experiments) fn times(most: u32) -> Vec<u32> {
    let mut times: Vec<u32> = (1..).map(|i| 1 << i).take_while(|t| *t < most).collect();
    if most > 1 {
        times.push(most);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read() {
        assert_eq!(Levels::read("auto"), Ok(Levels::Auto));
        assert_eq!(Levels::read("8, 16"), Ok(Levels::These(vec![8.0, 16.0])));
        for text in ["", "8,8", "16,8", "0", "x", "1,-2", "inf", "nan"] {
            assert!(Levels::read(text).is_err(), "{text}");
        }
        assert_eq!(times(8), [2, 4, 8]);
        assert_eq!(times(6), [2, 4, 6]);
        assert_eq!((times(1).len(), times(0).len()), (0, 0));
    }
}
