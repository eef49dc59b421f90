//! Exec, attach and port-forward.

use std::time::Duration;

use corten_container::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

async fn session(node: &Node, id: &str, command: &[&str], tty: bool) -> Session {
    let request = ExecRequest {
        container_id: id.to_owned(),
        command: words(command),
        tty,
        stdin: true,
        stdout: true,
        stderr: true,
    };
    let Streaming::Direct(session) = node.runtime.exec(&request).await.unwrap() else { panic!() };
    session
}

async fn read(reader: Option<Reader>) -> String {
    let mut text = String::new();
    tokio::time::timeout(DEADLINE, reader.unwrap().read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

#[tokio::test]
async fn commands_run_beside_the_container() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let id = node.start(&sandbox, &pod, &container("main", "sleep 1000")).await;
    let output = node.exec(&id, "echo $FROM_IMAGE $HOSTNAME; hostname >&2; exit 4").await;
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"yes web\n"[..], &b"web\n"[..]));
    assert_eq!(output.exit_code, 4);

    let mut session = session(&node, &id, &["cat"], false).await;
    let mut stdin = session.stdin.take().unwrap();
    stdin.write_all(b"through and back").await.unwrap();
    stdin.shutdown().await.unwrap();
    assert_eq!(read(session.stdout).await, "through and back");
    assert_eq!(session.exit.await.unwrap(), 0);

    let missing = node.runtime.exec_sync(&id, &words(&["nothing"]), DEADLINE).await.unwrap_err();
    assert!(missing.to_string().contains("executable file not found in $PATH"), "{missing}");
    let slow = words(&["sleep", "1000"]);
    let slow = node.runtime.exec_sync(&id, &slow, Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(slow, Error::DeadlineExceeded(_)), "{slow}");
    eventually("the timed out process is killed", async || {
        String::from_utf8(node.exec(&id, "ps").await.stdout).unwrap().matches("sleep 1000").count() == 1
    })
    .await;
    node.end().await;
}

#[tokio::test]
async fn terminals_have_a_size() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let id = node.start(&sandbox, &pod, &container("main", "sleep 1000")).await;
    let mut session =
        session(&node, &id, &["sh", "-c", "read go; stty size; ls -l /proc/self/fd/0; exit 9"], true).await;
    session.terminal.as_ref().unwrap().resize(133, 37).unwrap();
    session.stdin.as_mut().unwrap().write_all(b"go\n").await.unwrap();
    let text = read(session.stdout).await;
    assert!(text.contains("37 133\r\n") && text.contains("/dev/pts/"), "{text}");
    assert_eq!(session.exit.await.unwrap(), 9);
    node.end().await;
}

#[tokio::test]
async fn output_can_be_attached_to() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    for tty in [false, true] {
        let mut config = container(&format!("tty-{tty}"), "read word; echo got $word; exit 2");
        config.stdin = true;
        config.tty = tty;
        let id = node.start(&sandbox, &pod, &config).await;
        let attach = AttachRequest { container_id: id.clone(), tty, stdin: true, stdout: true, stderr: !tty };
        let Streaming::Direct(mut session) = node.runtime.attach(&attach).await.unwrap() else { panic!() };
        session.stdin.as_mut().unwrap().write_all(b"this\n").await.unwrap();
        let text = read(session.stdout).await;
        assert!(text.contains("got this"), "{text:?}");
        assert_eq!(session.exit.await.unwrap(), 2);
        assert!(text_of(&node.ended(&id).await.log_path).contains("got this"));
    }
    node.end().await;
}

#[tokio::test]
async fn ports_are_reached_from_within_the_pod() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let id = node.start(&sandbox, &pod, &container("main", "echo hello | nc -l -p 8080")).await;
    let connection = async {
        loop {
            if let Ok(Streaming::Direct(connection)) = node.runtime.port_forward(&sandbox, 8080).await {
                return connection;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let mut connection = tokio::time::timeout(DEADLINE, connection).await.unwrap();
    let mut text = [0; 6];
    connection.read_exact(&mut text).await.unwrap();
    assert_eq!(&text, b"hello\n");
    drop(connection);
    node.ended(&id).await;
    let Err(refused) = node.runtime.port_forward(&sandbox, 8080).await else {
        panic!("nothing listens on the port")
    };
    assert!(refused.to_string().contains("connection refused"), "{refused}");
    node.end().await;
}
