//! Limits that are a number or a percentage.

use corten_api::Value;

/// The rounding of a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    Up,
    Down,
}

/// The number of a limit; `None` if it is invalid.
pub(crate) fn scaled(limit: &Value, total: i64, round: Round) -> Option<i64> {
    match limit {
        Value::Int(number) => Some(*number),
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let product = percent.checked_mul(total)?;
            Some(match round {
                Round::Up => product.div_euclid(100) + i64::from(product.rem_euclid(100) > 0),
                Round::Down => product.div_euclid(100),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_either_way() {
        assert_eq!(scaled(&Value::from(3), 10, Round::Up), Some(3));
        assert_eq!(scaled(&Value::from("25%"), 10, Round::Up), Some(3));
        assert_eq!(scaled(&Value::from("25%"), 10, Round::Down), Some(2));
        assert_eq!(scaled(&Value::from("0%"), 10, Round::Up), Some(0));
        assert_eq!(scaled(&Value::from("many"), 10, Round::Up), None);
    }
}
