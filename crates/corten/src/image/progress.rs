//! The progress of a pull, as a bar on a terminal. Without a terminal nothing is shown.

use std::io::{self, IsTerminal, Write};

use corten_container::{Progress, PullProgress};

const WIDTH: usize = 30;

pub(super) struct Bar {
    image: String,
    shown: bool,
}

impl Bar {
    pub(super) fn new(image: &str) -> Bar {
        Bar { image: image.to_owned(), shown: io::stderr().is_terminal() }
    }

    pub(super) fn progress(&self) -> Progress {
        if !self.shown {
            return Progress::ignored();
        }
        let image = self.image.clone();
        Progress::new(move |progress| {
            // A closed terminal does not stop the pull.
            let _ = write!(io::stderr(), "\r\x1b[K{}", line(&image, progress));
        })
    }

    pub(super) fn finish(&self) {
        if self.shown {
            let _ = writeln!(io::stderr());
        }
    }
}

fn line(image: &str, progress: PullProgress) -> String {
    let filled = progress.bytes.min(progress.total_bytes) * WIDTH as u64;
    let done = filled
        .checked_div(progress.total_bytes)
        .and_then(|done| usize::try_from(done).ok())
        .unwrap_or_default();
    let bar = "=".repeat(done) + &" ".repeat(WIDTH - done);
    let (bytes, total) = (size(progress.bytes), size(progress.total_bytes));
    format!("{image} [{bar}] {bytes} of {total}, {} of {} parts", progress.layers, progress.total_layers)
}

/// Formats a number of bytes.
pub(super) fn size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_up() {
        let progress = PullProgress { bytes: 1_500_000, total_bytes: 3_000_000, layers: 1, total_layers: 2 };
        let expected = "web [===============               ] 1.5 MB of 3.0 MB, 1 of 2 parts";
        assert_eq!(line("web", progress), expected);
        assert_eq!([0, 999, 1000, 2_500_000_000_000].map(size), ["0 B", "999 B", "1.0 kB", "2500.0 GB"]);
    }
}
