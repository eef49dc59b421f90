//! The scoring strategies of NodeResourcesFit.

use corten_api::Value;

use crate::allocation::Amount;
use crate::framework::MAX_SCORE;

/// The highest score of a point of a shape.
const HIGHEST_POINT: i64 = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Prefers emptier nodes.
    LeastAllocated,
    /// Prefers fuller nodes.
    MostAllocated,
    /// A piecewise linear function of the utilization, by its points.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

impl Strategy {
    /// The score of a node with these amounts and their weights.
    pub(crate) fn score(&self, amounts: &[(Amount, i64)]) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for (amount, weight) in amounts {
            let score = self.of_one(*amount);
            if score == 0 && matches!(self, Strategy::RequestedToCapacityRatio(_)) {
                continue;
            }
            sum += score * weight;
            weights += weight;
        }
        match self {
            _ if weights == 0 => 0,
            Strategy::RequestedToCapacityRatio(_) => (sum as f64 / weights as f64).round() as i64,
            _ => sum / weights,
        }
    }

    fn of_one(&self, amount: Amount) -> i64 {
        let Amount { allocatable, would_be, .. } = amount;
        match self {
            Strategy::LeastAllocated if would_be > allocatable => 0,
            Strategy::LeastAllocated => share(allocatable - would_be, allocatable),
            Strategy::MostAllocated => share(would_be.min(allocatable), allocatable),
            Strategy::RequestedToCapacityRatio(line) => {
                let used = if would_be > allocatable { MAX_SCORE } else { share(would_be, allocatable) };
                on_line(line, used)
            }
        }
    }
}

fn share(part: i64, whole: i64) -> i64 {
    match part.checked_mul(MAX_SCORE) {
        Some(parts) => parts / whole,
        None => part / (whole / MAX_SCORE).max(1),
    }
}

/// The value of a piecewise linear function; constant beyond its ends.
fn on_line(line: &[(i64, i64)], at: i64) -> i64 {
    let mut before: Option<(i64, i64)> = None;
    for (x, y) in line {
        if at <= *x {
            return match before {
                None => *y,
                Some((x0, y0)) => y0 + (y - y0) * (at - x0) / (x - x0),
            };
        }
        before = Some((*x, *y));
    }
    before.map_or(0, |(_, y)| y)
}

/// Reads the points of a shape and scales their scores to those of nodes.
pub(super) fn points(shape: &[Value]) -> Result<Vec<(i64, i64)>, String> {
    if shape.is_empty() {
        return Err("at least one point must be specified".to_owned());
    }
    let mut points: Vec<(i64, i64)> = Vec::with_capacity(shape.len());
    for point in shape {
        let number = |key: &str| point.int_at(&[key]).unwrap_or(0);
        let (utilization, score) = (number("utilization"), number("score"));
        if !(0..=100).contains(&utilization) || !(0..=HIGHEST_POINT).contains(&score) {
            return Err("a point's utilization must be in [0, 100] and its score in [0, 10]".to_owned());
        }
        if points.last().is_some_and(|(before, _)| *before >= utilization) {
            return Err("utilization values must be sorted in increasing order".to_owned());
        }
        points.push((utilization, score * (MAX_SCORE / HIGHEST_POINT)));
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(would_be: &[i64]) -> Vec<(Amount, i64)> {
        would_be
            .iter()
            .map(|would_be| (Amount { allocatable: 1000, taken: 0, would_be: *would_be }, 1))
            .collect()
    }

    #[test]
    fn strategies() {
        let line = Strategy::RequestedToCapacityRatio(vec![(0, 0), (50, 100), (100, 0)]);
        for (would_be, least, most, ratio) in [
            (vec![0, 0], 100, 0, 0),
            (vec![500, 500], 50, 50, 100),
            (vec![250, 750], 50, 50, 50),
            (vec![1000, 500], 25, 75, 100),
            (vec![2000, 500], 25, 75, 100),
            (vec![], 0, 0, 0),
        ] {
            let amounts = amounts(&would_be);
            assert_eq!(Strategy::LeastAllocated.score(&amounts), least, "{would_be:?}");
            assert_eq!(Strategy::MostAllocated.score(&amounts), most, "{would_be:?}");
            assert_eq!(line.score(&amounts), ratio, "{would_be:?}");
        }
    }
}
