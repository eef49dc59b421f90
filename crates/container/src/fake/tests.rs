use std::time::Duration;

use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::*;

fn fake() -> Fake {
    let (clock, _) = Clock::manual(Timestamp::UNIX_EPOCH);
    let fake = Fake::new(clock);
    let id = "sha256:1".to_owned();
    fake.add_remote_image(Image { id, repo_tags: vec!["web:1".to_owned()], size: 7, ..Image::default() });
    fake
}

fn pod(name: &str) -> PodSandboxConfig {
    let metadata = PodSandboxMetadata { name: name.to_owned(), ..PodSandboxMetadata::default() };
    PodSandboxConfig { metadata, log_directory: "/logs".to_owned(), ..PodSandboxConfig::default() }
}

fn container(name: &str) -> ContainerConfig {
    let metadata = ContainerMetadata { name: name.to_owned(), attempt: 0 };
    ContainerConfig { metadata, image: ImageSpec::new("web:1"), ..ContainerConfig::default() }
}

async fn started(fake: &Fake) -> (String, String) {
    fake.pull_image(&ImageSpec::new("web:1"), None, None, &Progress::ignored()).await.unwrap();
    let sandbox = fake.run_pod_sandbox(&pod("a"), "").await.unwrap();
    let id = fake.create_container(&sandbox, &container("c"), &pod("a")).await.unwrap();
    fake.start_container(&id).await.unwrap();
    (sandbox, id)
}

#[tokio::test]
async fn containers_run_until_they_are_ended() {
    let fake = fake();
    let mut events = fake.events();
    let (sandbox, id) = started(&fake).await;
    assert_eq!(fake.container_status(&id).await.unwrap().state, ContainerState::Running);

    fake.exit(&id, 3, "Error").unwrap();
    let status = fake.container_status(&id).await.unwrap();
    assert_eq!((status.state, status.exit_code), (ContainerState::Exited, 3));
    assert_eq!(status.finished_at, Some(Timestamp::UNIX_EPOCH));

    fake.remove_pod_sandbox(&sandbox).await.unwrap();
    assert!(fake.container_status(&id).await.unwrap_err().is_not_found());
    let mut seen = Vec::new();
    while let Ok(event) = events.try_recv() {
        seen.push((event.container_id == id, event.kind));
    }
    use ContainerEventKind::{Created, Deleted, Started, Stopped};
    let expected = [
        (false, Created),
        (false, Started),
        (true, Created),
        (true, Started),
        (true, Stopped),
        (false, Stopped),
        (false, Deleted),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn the_fake_refuses_invalid_requests() {
    let fake = fake();
    let sandbox = fake.run_pod_sandbox(&pod("a"), "").await.unwrap();
    let taken = fake.run_pod_sandbox(&pod("a"), "").await.unwrap_err();
    assert!(matches!(taken, Error::AlreadyExists(_)), "{taken}");
    let missing = fake.create_container(&sandbox, &container("c"), &pod("a")).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    fake.stop_container("missing", Duration::ZERO).await.unwrap();
    fake.remove_container("missing").await.unwrap();

    let (_, id) = {
        fake.remove_pod_sandbox(&sandbox).await.unwrap();
        started(&fake).await
    };
    let twice = fake.start_container(&id).await.unwrap_err();
    assert!(matches!(twice, Error::FailedPrecondition(_)), "{twice}");
}

#[tokio::test]
async fn configured_failures_and_outputs_are_returned() {
    let fake = fake();
    let (sandbox, id) = started(&fake).await;
    fake.take_calls();
    fake.fail_next("exec_sync", Error::DeadlineExceeded("too slow".to_owned()));
    fake.on_exec(|_, command| Ok(ExecOutput { stdout: command.concat().into_bytes(), ..Default::default() }));
    let command = ["true".to_owned()];
    assert!(fake.exec_sync(&id, &command, Duration::ZERO).await.is_err());
    assert_eq!(fake.exec_sync(&id, &command, Duration::ZERO).await.unwrap().stdout, b"true");
    let call = Call { method: "exec_sync", about: id };
    assert_eq!(fake.take_calls(), [call.clone(), call]);

    let Streaming::Direct(mut connection) = fake.port_forward(&sandbox, 80).await.unwrap() else { panic!() };
    connection.write_all(b"hello").await.unwrap();
    let mut echo = [0; 5];
    connection.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"hello");
}
