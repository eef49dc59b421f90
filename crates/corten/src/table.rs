//! Tables of commands: columns as wide as their widest cell, and durations in few characters.

/// The rows with aligned columns.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("   ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// A duration in its largest unit.
pub(crate) fn short(seconds: i64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A size in its largest unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (bytes as f64, "B");
    for larger in UNITS {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{size:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "b", "c"], ["long", "", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "a      b   c\nlong\n");
    }

    #[test]
    fn durations_and_sizes_are_short() {
        assert_eq!([30, 600, 7200, 86_400 * 3].map(short), ["30s", "10m", "2h", "3d"]);
        assert_eq!([0, 1023, 1536, 5 << 30].map(size), ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
    }
}
