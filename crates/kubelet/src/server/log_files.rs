//! The node's own logs, the files in `/var/log`: `/logs/…`.
//!
//! Directories are listed as web servers do it, files are sent as they are. Nothing outside the directory is reached,
//! neither by a name nor by a link: pods that have the directory mounted can create links to anything. Links within
//! it are followed, because the logs of containers are linked there.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::response::{self, ApiResponse};

const FOLDER: &str = "/var/log";
/// The size of a piece of a file, and the number of pieces that wait for a slow client.
const PIECE: usize = 64 << 10;
const PIECES: usize = 4;

/// The response for a path that begins with `/logs`.
pub(super) async fn handle(path: &str) -> ApiResponse {
    let Some(within) = path.strip_prefix("/logs").filter(|within| within.starts_with('/')) else {
        return moved(path);
    };
    let shown = match locate(Path::new(FOLDER), within) {
        Some(place) => match open(Path::new(FOLDER), &place) {
            Ok(found) => show(found, path).await,
            Err(err) => Err(err),
        },
        None => Err(io::ErrorKind::NotFound.into()),
    };
    shown.unwrap_or_else(|err| match err.kind() {
        io::ErrorKind::PermissionDenied => response::text(StatusCode::FORBIDDEN, "403 Forbidden\n"),
        _ => response::text(StatusCode::NOT_FOUND, "404 page not found\n"),
    })
}

/// The file of a path, if it stays within the directory.
fn locate(folder: &Path, within: &str) -> Option<PathBuf> {
    let names = within.split('/').filter(|name| !name.is_empty() && *name != ".");
    names
        .map(|name| (name != ".." && !name.contains('\0')).then_some(name))
        .try_fold(folder.to_owned(), |place, name| Some(place.join(name?)))
}

/// Opens a file or directory, wherever links lead to, if that is within the directory.
///
/// The open file is checked, not its name, so that it cannot be replaced between the two.
fn open(folder: &Path, place: &Path) -> io::Result<OwnedFd> {
    let refused = || io::Error::from(io::ErrorKind::NotFound);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(CWD, place, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    let reached = format!("/proc/self/fd/{}", found.as_raw_fd());
    // A path of the node, in procfs.
    if !std::fs::read_link(&reached)?.starts_with(folder.canonicalize()?) {
        return Err(refused());
    }
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(refused());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, &reached, flags, Mode::empty())?)
}

async fn show(found: OwnedFd, path: &str) -> io::Result<ApiResponse> {
    let file = std::fs::File::from(found);
    match (file.metadata()?.is_dir(), path.ends_with('/')) {
        (true, true) => listing(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))).await,
        (true, false) => Ok(moved(path)),
        (false, true) => Err(io::ErrorKind::NotFound.into()),
        (false, false) => contents(File::from_std(file)).await,
    }
}

/// The entries of a directory, as a page with links.
async fn listing(folder: &Path) -> io::Result<ApiResponse> {
    // A path of the node, in procfs: that of a descriptor.
    let mut entries = tokio::fs::read_dir(folder).await?;
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        let mut name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().await?.is_dir() {
            name.push('/');
        }
        names.push(name);
    }
    names.sort_unstable();
    Ok(response::html(page(&names)))
}

fn page(names: &[String]) -> String {
    let mut page =
        String::from("<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n");
    for name in names {
        page.push_str(&format!("<a href=\"{}\">{}</a>\n", link(name), escaped(name)));
    }
    page.push_str("</pre>\n");
    page
}

/// A name as a link relative to its directory.
fn link(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/$&+,:=@".contains(&byte);
    let mut link = String::new();
    for byte in name.bytes() {
        match plain(byte) {
            true => link.push(char::from(byte)),
            false => link.push_str(&format!("%{byte:02X}")),
        }
    }
    // A name that looks like a URL scheme would not be relative.
    let first = name.split('/').next().unwrap_or_default();
    let link = if first.contains(':') { format!("./{link}") } else { link };
    escaped(&link)
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The contents of a file. Data that is written meanwhile may or may not be included.
async fn contents(mut file: File) -> io::Result<ApiResponse> {
    let mut left = file.metadata().await?.len();
    let (sender, pieces) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        while left > 0 {
            let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
            // The response ends here if the file cannot be read further or the client is gone.
            let Ok(read @ 1..) = file.read(&mut piece).await else { return };
            piece.truncate(read);
            left -= read as u64;
            if sender.send(Bytes::from(piece)).await.is_err() {
                return;
            }
        }
    });
    Ok(response::streamed(pieces))
}

/// Redirects to the path of a directory with a slash at the end, so that relative links work.
fn moved(path: &str) -> ApiResponse {
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut answer = response::text(StatusCode::MOVED_PERMANENTLY, "");
    if let Ok(location) = HeaderValue::try_from(format!("{}/", link(name))) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_above_the_directory_is_reached() {
        let folder = Path::new("/var/log");
        let table = [
            ("/", Some("/var/log")),
            ("/pods/a//b/./c", Some("/var/log/pods/a/b/c")),
            ("/../etc/shadow", None),
            ("/pods/../../etc/shadow", None),
            ("/..", None),
            ("/..a", Some("/var/log/..a")),
            ("/a\0b", None),
        ];
        for (within, expected) in table {
            assert_eq!(locate(folder, within).as_deref(), expected.map(Path::new), "{within}");
        }
    }

    /// A pod with the directory mounted creates links to the rest of the node.
    #[test]
    fn links_are_followed_within_the_directory_only() {
        let node = tempfile::tempdir().unwrap();
        let (folder, outside) = (node.path().join("log"), node.path().join("etc"));
        for path in [&folder.join("pods"), &outside] {
            std::fs::create_dir_all(path).unwrap();
            std::fs::write(path.join("0.log"), "").unwrap();
        }
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        link(&folder.join("pods/0.log"), "absolute");
        link(Path::new("pods"), "relative");
        link(&outside.join("0.log"), "shadow");
        link(Path::new("../etc"), "up");
        link(Path::new("/"), "root");
        link(Path::new("/proc/self/root"), "magic");
        link(Path::new("/dev/null"), "device");
        rustix::fs::mkfifoat(CWD, folder.join("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        let opens = |within: &str| locate(&folder, within).is_some_and(|place| open(&folder, &place).is_ok());
        for good in ["/", "/pods/0.log", "/absolute", "/relative/0.log"] {
            assert!(opens(good), "{good}");
        }
        for hostile in
            ["/shadow", "/up/0.log", "/root/etc/passwd", "/magic/etc/passwd", "/device", "/pipe", "/none"]
        {
            assert!(!opens(hostile), "{hostile}");
        }
    }

    #[test]
    fn names_become_relative_links() {
        let names = ["a b.log".to_owned(), "<x>&\"y\"".to_owned(), "pods/".to_owned(), "a:b".to_owned()];
        let expected = "<a href=\"a%20b.log\">a b.log</a>\n\
                        <a href=\"%3Cx%3E&amp;%22y%22\">&lt;x&gt;&amp;&#34;y&#34;</a>\n\
                        <a href=\"pods/\">pods/</a>\n\
                        <a href=\"./a:b\">a:b</a>\n";
        assert!(page(&names).ends_with(&format!("<pre>\n{expected}</pre>\n")), "{}", page(&names));
    }
}
