//! The progress of a migration: a bar on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const WIDTH: usize = 30;
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(5);

pub(super) struct Progress {
    what: &'static str,
    total: usize,
    done: usize,
    started: Instant,
    shown: Instant,
    is_terminal: bool,
}

impl Progress {
    pub(super) fn new(what: &'static str, total: usize) -> Progress {
        let (started, is_terminal) = (Instant::now(), io::stderr().is_terminal());
        let progress = Progress { what, total, done: 0, started, shown: started, is_terminal };
        if is_terminal {
            progress.show();
        }
        progress
    }

    pub(super) fn advance(&mut self) {
        self.done += 1;
        let every = if self.is_terminal { BAR_EVERY } else { LINE_EVERY };
        if self.shown.elapsed() >= every {
            self.shown = Instant::now();
            self.show();
        }
    }

    pub(super) fn finish(self) {
        self.show();
        if self.is_terminal {
            // A closed terminal does not stop the migration.
            let _ = writeln!(io::stderr());
        }
    }

    fn show(&self) {
        let line = line(self.what, self.done, self.total, self.started.elapsed());
        let _ = if self.is_terminal {
            write!(io::stderr(), "\r\x1b[K{} {line}", bar(self.done, self.total))
        } else {
            writeln!(io::stderr(), "{line}")
        };
    }
}

fn bar(done: usize, total: usize) -> String {
    let filled = (done.min(total) * WIDTH).checked_div(total).unwrap_or(WIDTH);
    format!("[{}{}]", "=".repeat(filled), " ".repeat(WIDTH - filled))
}

fn line(what: &str, done: usize, total: usize, took: Duration) -> String {
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    format!("{what}: {done} of {total} ({rate:.0}/s)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_lines() {
        assert_eq!(bar(1, 2), "[===============               ]");
        assert_eq!((bar(0, 0).len(), bar(9, 2)), (WIDTH + 2, format!("[{}]", "=".repeat(WIDTH))));
        assert_eq!(line("copying", 500, 1000, Duration::from_secs(2)), "copying: 500 of 1000 (250/s)");
    }
}
