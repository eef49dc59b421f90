//! Sets of indexes in a job's status: `1,3-5,7`.

use corten_api::status::quoted;

/// The number of indexes, which must be in order and below `completions`.
pub(super) fn count(indexes: &str, completions: i64) -> Result<i64, String> {
    if indexes.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last) = (0, None);
    for interval in indexes.split(',') {
        let (low, high) = interval_of(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= low) {
            return Err(format!("non-increasing order, previous: {last}, current: {low}"));
        }
        total += high - low + 1;
        last = Some(high);
    }
    Ok(total)
}

/// The first index that is in both, if any. Invalid intervals are skipped.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |indexes: &str| -> Vec<(i64, i64)> {
        indexes.split(',').filter_map(|interval| interval_of(interval, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut c, mut f) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((c_low, c_high)), Some((f_low, f_high))) = (c.peek(), f.peek()) {
        if c_low <= f_high && f_low <= c_high {
            return Some(*c_low.max(f_low));
        }
        if c_low <= f_low {
            c.next();
        } else {
            f.next();
        }
    }
    None
}

fn interval_of(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut limits = interval.split('-');
    let (low, high) = (limits.next().unwrap_or_default(), limits.next());
    if limits.next().is_some() {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quoted(interval)
        ));
    }
    let low = index_of(low, completions)?;
    let Some(high) = high else { return Ok((low, low)) };
    let high = index_of(high, completions)?;
    if low >= high {
        return Err(format!("non-increasing order, previous: {low}, current: {high}"));
    }
    Ok((low, high))
}

fn index_of(text: &str, completions: i64) -> Result<i64, String> {
    let index: i64 =
        text.parse().map_err(|_| format!("cannot convert string to integer for index: {}", quoted(text)))?;
    if index >= completions {
        return Err(format!("too large index: {}", quoted(text)));
    }
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_in_order() {
        assert_eq!(count("", 5), Ok(0));
        assert_eq!(count("0,2-4", 5), Ok(4));
        assert_eq!(count("2,1", 5), Err("non-increasing order, previous: 2, current: 1".to_owned()));
        assert_eq!(count("3-2", 5), Err("non-increasing order, previous: 3, current: 2".to_owned()));
        assert_eq!(count("5", 5), Err("too large index: \"5\"".to_owned()));
        assert_eq!(count("x", 5), Err("cannot convert string to integer for index: \"x\"".to_owned()));
    }

    #[test]
    fn an_index_fails_or_completes() {
        assert_eq!(overlap("0-2", "3,4", 5), None);
        assert_eq!(overlap("0-2,4", "1-3", 5), Some(1));
        assert_eq!(overlap("0,x,4", "4", 5), Some(4));
    }
}
