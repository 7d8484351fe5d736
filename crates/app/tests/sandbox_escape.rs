//! What a command tries in order to reach outside its sandbox, and what the host does when a command has laid a trap for it.
//!
//! Promise 5: a sandbox reaches nothing that was not granted. Each attempt is a real one, with the real launcher.

#![expect(clippy::disallowed_methods, reason = "tests prepare the host's side themselves")]

mod sandbox_room;

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use runtime::ports::sandbox::{ExecEnd, SandboxError};
use sandbox_room::{Room, SCAN, SOON, command, path, shell};

const SECRET: &str = "do-not-tell-4711";

/// N9, promise 5. Each script succeeds only if it gets out; each must fail, and tell nothing.
#[tokio::test]
async fn nothing_outside_is_reached() {
    let room = Room::new().await;
    let data = room.data.path();
    let token = data.join("token");
    std::fs::write(&token, SECRET).unwrap();
    std::fs::write(data.join("writable"), "").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = data.join("socket");
    let _unix = UnixListener::bind(&socket).unwrap();
    let (data, token, me) = (data.display(), token.display(), std::process::id());

    let attempts = [
        // The host's files, by name, through links, and through other processes' roots.
        format!("cat {token}"),
        format!("ls {data}"),
        format!("ln -s {token} link && cat link"),
        format!("cat /proc/1/root{token} || cat /proc/1/cwd/{token} || cat /proc/self/root{token}"),
        format!("cat /workspace/../../../../{token} || cat ../../token || cat ../../../token"),
        "cat /etc/shadow || ls /root || ls /home || ls /var".into(),
        "cat /proc/1/environ || ls /proc/1/fd || head -c 4 /proc/1/exe".into(),
        "ls /proc/self/fd | grep -vE '^(0|1|2|3)$'".into(),
        "ls /sys/kernel || ls /dev/vda || ls /dev/sda || ls /dev/mem || ls /dev/kvm || ls /dev/tty".into(),
        // Writing outside the project.
        "touch /usr/x || touch /usr/bin/x || touch /etc/x || touch /x || touch /opt/x || touch /dev/x || mkdir /y".into(),
        "echo x > /etc/passwd || echo x > /etc/ld.so.cache || rm /usr/bin/env || mv /etc /e".into(),
        "echo 1 > /proc/sys/kernel/core_pattern || echo b > /proc/sysrq-trigger || echo 0 > /proc/self/oom_score_adj".into(),
        // The host's processes.
        format!("kill -0 {me} || kill -9 {me}"),
        format!("ls /proc/{me}/cmdline"),
        "kill -9 1 && sleep 0.1 && ! kill -0 1".into(),
        // The network.
        format!("echo hello > /dev/tcp/127.0.0.1/{port}"),
        format!("echo hello > /dev/tcp/localhost/{port}"),
        "echo hello > /dev/tcp/1.1.1.1/443 || echo hello > /dev/udp/1.1.1.1/53".into(),
        "echo hello > /dev/tcp/169.254.169.254/80 || echo hello > /dev/tcp/172.17.0.1/2375 || echo hello > /dev/tcp/10.0.0.1/80".into(),
        "getent ahosts example.com".into(),
        format!("test -S {}", socket.display()),
        // Privileges.
        "mount -t tmpfs none /tmp || mount --bind /usr /tmp/home || umount /proc".into(),
        "unshare -U true || unshare -m true || unshare -n true || unshare -p true".into(),
        "chroot /tmp true || setpriv --reuid=0 true || su -c true || nsenter -t 1 -m true".into(),
        "chown 0 /workspace || mknod /tmp/disk b 254 0 || mknod /tmp/memory c 1 1".into(),
        "hostname other || date -s 2001-01-01".into(),
        "test \"$(id -u)\" = 0".into(),
        // Standard input is empty, so nobody can be asked.
        "read line".into(),
    ];
    for attempt in attempts {
        let ran = room.sh(&attempt).await;
        let ExecEnd::Exited(code) = ran.outcome.end else { panic!("{attempt}: {ran:?}") };
        assert_ne!(code, 0, "got out by `{attempt}`: {ran:?}");
        assert!(!ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET), "`{attempt}` told the secret");
    }
    assert!(listener.accept().is_err(), "someone connected to the host's loopback");
}

/// No secret of Baton's is in a command's environment, and only allowed variables can be added.
#[tokio::test]
async fn the_environment_is_the_sandboxs_own() {
    let room = Room::new().await;
    let mut spec = command("env", &[]);
    spec.env = vec![("NODE_ENV".into(), "production".into()), ("VITE_TITLE".into(), "A title".into())];
    let ran = room.run(spec.clone()).await.unwrap();
    let mut names: Vec<_> = ran.stdout.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["CI", "HOME", "LANG", "NODE_ENV", "PATH", "SHELL", "TMPDIR", "USER", "VITE_TITLE"]);

    for (name, value) in
        [("LD_PRELOAD", "x.so"), ("NODE_EXTRA_CA_CERTS", "/x"), ("PATH", "/tmp"), ("VITE_A=B", "c"), ("TZ", "a\0b")]
    {
        spec.env = vec![(name.into(), value.into())];
        let refused = room.run(spec.clone()).await;
        assert!(matches!(refused, Err(SandboxError::BadCommand(_))), "{name}: {refused:?}");
    }
}

/// Links that a command has planted are not followed when the host writes, reads, renames, removes, scans or collects.
#[tokio::test]
async fn the_host_follows_no_planted_link() {
    let room = Room::new().await;
    let outside = room.data.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("kept"), SECRET).unwrap();
    let outside_name = outside.display();
    let planted = room
        .sh(&format!(
            "ln -s {outside_name} out && ln -s {outside_name}/kept leak && ln -s / everything && mkdir dist && \
             ln -s {outside_name} dist/out && ln -s {outside_name}/kept dist/leak && echo page > dist/index.html && \
             ln -s /proc/self/root magic && mkdir real && ln -s ../real real/loop && ln -s self self"
        ))
        .await;
    assert_eq!(planted.outcome.end, ExecEnd::Exited(0), "{planted:?}");
    let workspace = &room.workspace;
    let file = |name: &str| vec![(path(name), "written".as_bytes().to_vec().into())];

    for name in ["out/new", "out/kept", "everything/tmp/new", "magic/tmp/new", "self/new", "real/loop/x/new"] {
        let written = workspace.write(&file(name)).await;
        assert!(matches!(written, Err(SandboxError::BadPath { .. })), "write {name}: {written:?}");
        assert!(workspace.rename(&path("dist/index.html"), &path(name)).await.is_err(), "rename to {name}");
    }
    for name in ["leak", "out/kept", "dist/leak", "everything/etc/passwd", "self"] {
        let read = workspace.read(&path(name), 1_000).await;
        assert!(matches!(read, Err(SandboxError::BadPath { .. })), "read {name}: {read:?}");
    }
    assert!(workspace.remove(&path("out/kept")).await.is_err());
    assert!(workspace.collect(&path("out"), SCAN).await.is_err());
    let collected = workspace.collect(&path("dist"), SCAN).await.unwrap();
    assert_eq!(collected.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["index.html"]);
    let scan = workspace.scan(SCAN).await.unwrap();
    assert!(scan.files.is_empty() && scan.skipped >= 5, "{scan:?}");

    // What has a link's name itself is replaced or removed, and the link's target is not.
    workspace.write(&file("leak")).await.unwrap();
    assert_eq!(workspace.read(&path("leak"), 100).await.unwrap().as_deref(), Some(b"written".as_slice()));
    assert!(workspace.remove(&path("out")).await.unwrap());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(outside.join("kept")).unwrap(), SECRET);
}

/// The same while a command swaps a folder for a link as fast as it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_against_the_host_is_lost() {
    let room = Room::new().await;
    let outside = room.data.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let script = format!(
        "mkdir d; ln -s {} l; echo ready; while :; do mv d e; mv -T l d; mv -T d l; mv e d; done",
        outside.display()
    );
    let (stop, running) = room.start(shell(&script), "ready").await;
    let start = Instant::now();
    let mut written = 0;
    while start.elapsed() < Duration::from_secs(2) {
        written += usize::from(room.workspace.write(&[(path("d/f"), "x".as_bytes().to_vec().into())]).await.is_ok());
    }
    stop.cancel();
    assert_eq!(running.await.unwrap().end, ExecEnd::Cancelled);
    assert!(written > 0, "the host never came through at all");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "a file was written outside");
}

/// A pipe in the place of a file must not hang the host, and is no file of the project.
#[tokio::test]
async fn planted_pipes_and_sockets_are_no_files() {
    let room = Room::new().await;
    let ran = room.sh("mkdir -p dist src && mkfifo dist/pipe src/pipe && echo a > src/a && chmod 000 src/a").await;
    assert_eq!(ran.outcome.end, ExecEnd::Exited(0), "{ran:?}");
    let looked = async {
        let read = room.workspace.read(&path("src/pipe"), 100).await;
        assert!(matches!(read, Err(SandboxError::BadPath { .. })), "{read:?}");
        assert!(room.workspace.collect(&path("dist"), SCAN).await.unwrap().is_empty());
        let scan = room.workspace.scan(SCAN).await.unwrap();
        assert_eq!((scan.files.len(), scan.skipped), (1, 1));
        assert!(matches!(room.workspace.read(&path("src/pipe"), 100).await, Ok(None)), "a build would wait for it");
        let again = room.sh("mkfifo src/pipe").await;
        assert_eq!(again.outcome.end, ExecEnd::Exited(0), "{again:?}");
        // A whole file can take a pipe's place.
        room.workspace.write(&[(path("src/pipe"), "now a file".as_bytes().to_vec().into())]).await.unwrap();
        assert!(room.workspace.read(&path("src/pipe"), 100).await.unwrap().is_some());
    };
    tokio::time::timeout(SOON, looked).await.expect("the host hangs on a pipe");
}

/// A workspace sees nothing of another: not of the same project's earlier epoch, and not at the same time.
#[tokio::test]
async fn workspaces_share_nothing() {
    let room = Room::new().await;
    let other = sandbox_room::open(&room.sandbox, 2).await;
    room.workspace.write(&[(path("mine"), SECRET.as_bytes().to_vec().into())]).await.unwrap();
    let look = shell("ls -A /workspace /tmp/home; touch /tmp/left /workspace/theirs; find / -name mine 2>/dev/null");
    let ran = sandbox_room::run(&*other, look, Default::default()).await.unwrap();
    assert!(!ran.stdout.contains("mine"), "{ran:?}");
    let ran = room.sh("ls -A /workspace /tmp").await;
    assert!(!ran.stdout.contains("theirs") && !ran.stdout.contains("left"), "{ran:?}");
    assert!(room.workspace.read(&path("theirs"), 10).await.unwrap().is_none());
}

/// The files of a project are the sandbox user's and nobody else's, whoever runs Baton.
#[tokio::test]
async fn files_belong_to_the_command_that_must_edit_them() {
    let room = Room::new().await;
    room.workspace.write(&[(path("deep/folders/file"), "one".as_bytes().to_vec().into())]).await.unwrap();
    let ran =
        room.sh("echo two >> deep/folders/file && mv deep/folders deep/renamed && rm -r deep/renamed && id -u").await;
    assert_eq!((ran.outcome.end, ran.stdout.trim()), (ExecEnd::Exited(0), "1000"), "{ran:?}");
    let mut text = String::new();
    std::fs::File::open("/proc/self/status").unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("Seccomp:\t0"), "the sandbox confined its host");
}
