//! Backups in a bucket of an S3 server that checks signatures, with and without TLS.

use std::io::{BufRead, BufReader};
use std::process::Child;

use corten_testkit::{repository, target_directory};

use super::*;

struct S3 {
    child: Child,
    url: String,
    credentials: PathBuf,
}

impl S3 {
    /// Starts a server; with a certificate and its key, on TLS.
    fn start(scratch: &Path, tls: &[&Path]) -> S3 {
        let python = target_directory().join("s3/bin/python3");
        assert!(python.exists(), "{} is not there; run `cargo xtask prepare`", python.display());
        let mut child = Command::new(python)
            .arg(repository().join("tests/python/s3.py"))
            .args(tls)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the S3 server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("the S3 server is ready");
        let get = |name: &str| ready[name].as_str().expect("a text").to_owned();
        let credentials = scratch.join("credentials");
        let text = format!(
            "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
            get("id"),
            get("secret")
        );
        fs::write(&credentials, text).expect("the file can be written");
        S3 { child, url: get("url"), credentials }
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate for 127.0.0.1 and its key.
fn certificate(directory: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let (cert, key) = (directory.join("s3.crt"), directory.join("s3.key"));
    fs::write(&cert, made.cert.pem()).expect("the file can be written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("the file can be written");
    (cert, key)
}

#[test]
fn a_cluster_goes_to_a_bucket_and_comes_back() {
    let server = Server::start();
    fill(server.client());
    let before = state(server.client());
    let scratch = DataDirectory::new();
    let (cert, key) = certificate(scratch.path());
    let data_dir = text(server.directory().path()).to_owned();
    for tls in [&[][..], &[&*cert, &*key][..]] {
        let s3 = S3::start(scratch.path(), tls);
        let with_bucket = |arguments: &[&str], place: &str, credentials: &Path| {
            let mut command = backup(arguments);
            command.args([place, "s3://backups/clusters/one", "--s3-endpoint", &s3.url]);
            command.args(["--s3-credentials-file", text(credentials)]);
            if !tls.is_empty() {
                command.args(["--s3-ca-file", text(&cert)]);
            }
            command
        };
        let create = ["create", "--data-dir", &data_dir, "--keep", "2"];
        for _ in 0..3 {
            succeed(with_bucket(&create, "--to", &s3.credentials));
        }
        let listed = succeed(with_bucket(&["list"], "--from", &s3.credentials));
        assert_eq!(listed.lines().count(), 3, "two are kept: {listed}");
        assert!(
            !server
                .directory()
                .path()
                .join("backup-spool")
                .read_dir()
                .is_ok_and(|mut all| all.next().is_some())
        );

        // A wrong secret is a wrong signature; the server says so.
        let wrong = scratch.path().join("wrong");
        let good = fs::read_to_string(&s3.credentials).expect("credentials");
        let (id, _) = good.split_once("aws_secret").expect("a secret");
        fs::write(&wrong, format!("{id}aws_secret_access_key = wrong\n")).expect("the file can be written");
        refuse(with_bucket(&create, "--to", &wrong), "403");

        let machine = DataDirectory::new();
        let restore = ["restore", "latest", "--data-dir", text(machine.path())];
        succeed(with_bucket(&restore, "--from", &s3.credentials));
        assert_eq!(state(start(&machine, &[]).client()), before);
        if !tls.is_empty() {
            let mut untrusted = backup(&["list", "--from", "s3://backups", "--s3-endpoint", &s3.url]);
            untrusted.args(["--s3-credentials-file", text(&s3.credentials)]);
            refuse(untrusted, "certificate");
        }
    }
}
