//! How commands and workspaces end: nothing of them is left, whoever ends them, and who runs Baton makes no difference.

#![expect(clippy::disallowed_methods, reason = "tests start other users' processes, and look for what is left")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's own trouble ends the test")]

mod sandbox_room;

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::sandbox::local::LocalSandbox;
use contract::ProjectId;
use runtime::ports::sandbox::{ExecEnd, IsolationLevel, Sandbox as _, SandboxError, WorkspaceSpec};
use sandbox_room::{Room, SCAN, SOON, eventually, path, processes_with, shell};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Processes that do all they can to get away: own sessions, orphans of orphans, deaf to signals.
fn runaways(mark: &str) -> String {
    format!(
        "trap '' TERM INT HUP; setsid sleep {mark} & (setsid bash -c 'setsid sleep {mark} & setsid sleep {mark} & exit' &) ; \
         nohup sleep {mark} >/dev/null 2>&1 & while [ $(pgrep -fc 'sleep {mark}') -lt 4 ]; do :; done; echo ready; "
    )
}

/// Promise 4, E16: cancel, timeout, the program's own end and a dropped future all leave nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_ends_a_command_ends_all_of_its_processes() {
    let room = Room::new().await;

    let mark = sandbox_room::mark();
    let (stop, running) = room.start(shell(&format!("{} sleep {mark}", runaways(&mark))), "ready").await;
    assert!(processes_with(&mark).len() >= 4);
    stop.cancel();
    assert_eq!(running.await.unwrap().end, ExecEnd::Cancelled);
    assert_eq!(processes_with(&mark), [0u32; 0], "after a cancel");

    let mark = sandbox_room::mark();
    let mut late = shell(&format!("{} sleep {mark}", runaways(&mark)));
    late.timeout = Duration::from_secs(2);
    assert_eq!(room.run(late).await.unwrap().outcome.end, ExecEnd::TimedOut);
    assert_eq!(processes_with(&mark), [0u32; 0], "after a timeout");

    // They hold the output open, which must not keep the command from ending.
    let mark = sandbox_room::mark();
    let start = Instant::now();
    let ran = room.sh(&format!("{} exit 5", runaways(&mark))).await;
    assert_eq!(ran.outcome.end, ExecEnd::Exited(5));
    assert!(start.elapsed() < SOON);
    assert_eq!(processes_with(&mark), [0u32; 0], "after the program's own end");

    let mark = sandbox_room::mark();
    let (output, mut chunks) = mpsc::channel(16);
    let forgotten =
        room.workspace.exec(shell(&format!("{} sleep {mark}", runaways(&mark))), output, CancellationToken::new());
    tokio::select! {
        ended = forgotten => panic!("{ended:?}"),
        chunk = chunks.recv() => assert!(chunk.is_some()),
    }
    eventually("a dropped command's end", || processes_with(&mark).is_empty());
}

/// A cancel that comes before the start, or again and again, is as good as any.
#[tokio::test]
async fn cancelling_early_and_often_is_harmless() {
    let room = Room::new().await;
    let stop = CancellationToken::new();
    stop.cancel();
    let mark = sandbox_room::mark();
    let ran = sandbox_room::run(&*room.workspace, shell(&format!("touch started; sleep {mark}")), stop).await.unwrap();
    assert_eq!(ran.outcome.end, ExecEnd::Cancelled);
    assert!(room.workspace.read(&path("started"), 1).await.unwrap().is_none());
    for _ in 0..20 {
        let stop = CancellationToken::new();
        let canceller = stop.clone();
        let (ran, ()) =
            tokio::join!(sandbox_room::run(&*room.workspace, shell(&format!("sleep {mark}")), stop), async move {
                tokio::task::yield_now().await;
                canceller.cancel();
            });
        assert_eq!(ran.unwrap().outcome.end, ExecEnd::Cancelled);
    }
    assert_eq!(processes_with(&mark), [0u32; 0]);
    assert_eq!(room.sh("echo fine").await.stdout, "fine\n");
}

/// Commands of one workspace do not overlap; those of different workspaces do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_runs_one_command_at_a_time() {
    let room = Room::new().await;
    let script = "mkdir busy && sleep 0.2 && rmdir busy";
    let (a, b, c) = tokio::join!(room.sh(script), room.sh(script), room.sh(script));
    for ran in [a, b, c] {
        assert_eq!(ran.outcome.end, ExecEnd::Exited(0), "{ran:?}");
    }
    // One waits for the other's sign, so both must run at once. They share nothing but the host's clock and its process table.
    let other = sandbox_room::open(&room.sandbox, 2).await;
    let mark = sandbox_room::mark();
    let (stop, first) = room.start(shell(&format!("echo ready; sleep {mark}")), "ready").await;
    let second = sandbox_room::run(&*other, shell("echo done"), CancellationToken::new()).await.unwrap();
    assert_eq!(second.stdout, "done\n");
    assert!(!processes_with(&mark).is_empty(), "the first still runs");
    stop.cancel();
    assert_eq!(first.await.unwrap().end, ExecEnd::Cancelled);
}

/// Closing ends what runs and removes everything, however it was arranged; afterwards all is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_workspace_leaves_nothing() {
    let room = Room::new().await;
    let kept = room.data.path().join("sandbox");
    let before = workspaces(&kept);
    assert_eq!(before, 1);
    let deep = room
        .sh("mkdir locked && echo x > locked/x && chmod 000 locked && \
             name=$(printf 'd%.0s' {1..200}); for i in {1..100}; do mkdir -m 700 $name && cd $name 2>/dev/null; done; echo bottom > file; touch -- '-rf' $'new\\nline'")
        .await;
    assert_eq!(deep.outcome.end, ExecEnd::Exited(0), "{deep:?}");
    let mark = sandbox_room::mark();
    let (_stop, running) = room.start(shell(&format!("echo ready; sleep {mark}")), "ready").await;
    room.workspace.close().await.unwrap();
    assert_eq!(running.await.unwrap().end, ExecEnd::Cancelled);
    assert_eq!(processes_with(&mark), [0u32; 0]);
    assert_eq!(workspaces(&kept), 0);

    room.workspace.close().await.unwrap();
    assert!(matches!(room.workspace.write(&[]).await, Err(SandboxError::Closed)));
    assert!(matches!(room.workspace.scan(SCAN).await, Err(SandboxError::Closed)));
    assert!(matches!(room.run(shell("true")).await, Err(SandboxError::Closed)));

    // A workspace that is only dropped goes too, and so does the whole sandbox.
    let Room { workspace, sandbox, data } = room;
    drop(sandbox_room::open(&sandbox, 3).await);
    drop((workspace, sandbox));
    eventually("the sandbox's folder is gone", || std::fs::read_dir(&kept).unwrap().count() == 0);
    drop(data);
}

fn workspaces(kept: &Path) -> usize {
    let instances = std::fs::read_dir(kept).unwrap().flatten();
    let folders = instances.flat_map(|instance| std::fs::read_dir(instance.path()).unwrap().flatten());
    folders.filter(|entry| entry.path().is_dir()).count()
}

/// Point 8: dependencies are a layer. Commands may change them for their workspace, and nobody else sees it.
#[tokio::test]
async fn dependencies_are_a_layer_that_only_the_workspace_changes() {
    let template = tempfile::tempdir().unwrap();
    let package = template.path().join("node_modules/react");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("index.js"), "original").unwrap();
    let room = Room::with(|config| config.template_dir = Some(template.path().to_owned())).await;

    let changes = "cat node_modules/react/index.js && echo changed > node_modules/react/index.js && mkdir node_modules/.vite-temp \
                   && echo new > node_modules/.vite-temp/config && rm -r node_modules/react && mkdir node_modules/react";
    let ran = room.sh(changes).await;
    assert_eq!((ran.outcome.end, ran.stdout.as_str()), (ExecEnd::Exited(0), "original"), "{ran:?}");
    // The next command finds the changes, and has the layer under no second name.
    let ran = room
        .sh("cat node_modules/.vite-temp/config; ls -A node_modules/react; ls -A /.layers; rmdir node_modules")
        .await;
    assert_eq!(ran.stdout, "new\n", "{ran:?}");
    assert_ne!(ran.outcome.end, ExecEnd::Exited(0));
    let other = sandbox_room::open(&room.sandbox, 2).await;
    let ran =
        sandbox_room::run(&*other, shell("ls -A node_modules; cat node_modules/react/index.js"), Default::default())
            .await;
    assert_eq!(ran.unwrap().stdout, "react\noriginal");
    assert_eq!(std::fs::read_to_string(package.join("index.js")).unwrap(), "original");

    // They are no files of the project, and the host does not write under them.
    assert!(room.workspace.scan(SCAN).await.unwrap().files.is_empty());
    let written = room.workspace.write(&[(path("node_modules/react/x.js"), "x".as_bytes().to_vec().into())]).await;
    assert!(matches!(written, Err(SandboxError::BadPath { .. })), "{written:?}");
}

/// A caller sees what a command changed, also when the command hides it.
#[tokio::test]
async fn a_scan_shows_what_a_command_changed() {
    let room = Room::new().await;
    let files = ["a.ts", "src/b.ts", "src/c.ts"].map(|name| (path(name), "12345".as_bytes().to_vec().into()));
    room.workspace.write(&files).await.unwrap();
    let before = room.workspace.scan(SCAN).await.unwrap();
    assert_eq!(
        before.files.keys().map(contract::ProjectPath::as_str).collect::<Vec<_>>(),
        ["a.ts", "src/b.ts", "src/c.ts"]
    );
    assert_eq!(room.workspace.scan(SCAN).await.unwrap(), before);

    let same_size_same_time = "touch -r src/b.ts keep; printf 54321 > src/b.ts; touch -r keep src/b.ts; rm keep src/c.ts; \
                               mkdir -p dist .git node_modules src/.cache; touch dist/x .git/x node_modules/x src/.cache/x new";
    assert_eq!(room.sh(same_size_same_time).await.outcome.end, ExecEnd::Exited(0));
    let after = room.workspace.scan(SCAN).await.unwrap();
    let changed = |name: &str| after.files.get(&path(name)) != before.files.get(&path(name));
    assert_eq!(["a.ts", "src/b.ts", "src/c.ts", "new"].map(changed), [false, true, true, true]);
    assert_eq!(after.files.len(), 3, "{after:?}");
}

/// kill -9 of Baton itself: the kernel ends what it had started, and the next start removes what was left.
#[tokio::test]
async fn a_killed_baton_leaves_no_process_and_its_folder_is_removed() {
    let (mark, data) = (sandbox_room::mark(), tempfile::tempdir().unwrap());
    let mut baton = again("as_another_process", &data, &mark).stdout(Stdio::null()).spawn().unwrap();
    eventually("the command runs", || processes_with(&format!("sleep {mark}")).len() >= 4);
    baton.kill().unwrap();
    baton.wait().unwrap();
    eventually("the command's end", || processes_with(&mark).is_empty());
    eventually("the keeper's end", || {
        processes_with("baton __sandbox").iter().all(|process| parent(*process) != Some(1))
    });

    let kept = data.path().join("sandbox");
    assert_eq!(workspaces(&kept), 1);
    let _next = sandbox_room::sandbox(sandbox_room::config(data.path())).await;
    assert_eq!(workspaces(&kept), 0);
}

fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// This test binary again, running one test that is not run by itself.
fn again(test: &str, data: &tempfile::TempDir, mark: &str) -> Command {
    copy(&std::env::current_exe().unwrap(), test, data, mark)
}

/// The same, of a copy of it.
fn copy(program: &Path, test: &str, data: &tempfile::TempDir, mark: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("SANDBOX_TEST_DATA", data.path()).env("SANDBOX_TEST_MARK", mark);
    command
}

/// Runs another process's test, and sees that it was there to be run.
fn passes(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

async fn room_of_another_process() -> (LocalSandbox, Arc<dyn runtime::ports::sandbox::Workspace>, String) {
    let data = std::env::var("SANDBOX_TEST_DATA").expect("run by another test");
    let sandbox = sandbox_room::sandbox(sandbox_room::config(Path::new(&data))).await;
    let workspace = sandbox_room::open(&sandbox, 1).await;
    (sandbox, workspace, std::env::var("SANDBOX_TEST_MARK").unwrap())
}

#[tokio::test]
#[ignore = "run by other tests, in a process that they kill"]
async fn as_another_process() {
    let (_sandbox, workspace, mark) = room_of_another_process().await;
    let script = format!("{} sleep {mark}", runaways(&mark));
    sandbox_room::run(&*workspace, shell(&script), CancellationToken::new()).await.unwrap();
}

/// N9: an ordinary user gets the same isolation, and the level says what the kernel does not keep.
#[tokio::test]
async fn an_ordinary_user_has_a_sandbox_too() {
    if !rustix::process::geteuid().is_root() {
        return; // Then every other test has shown it.
    }
    let data = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(data.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // What was built may lie where only root may go, such as in root's home.
    let [program, launcher] = ["program", "launcher"].map(|name| data.path().join(name));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::copy(sandbox_room::launcher(), &launcher).unwrap();
    let mut copy = copy(&program, "as_an_ordinary_user", &data, "");
    passes(copy.env("SANDBOX_TEST_LAUNCHER", launcher).uid(NOBODY).gid(NOBODY));
}

const NOBODY: u32 = 65_534;

#[tokio::test]
#[ignore = "run by another test, as another user"]
async fn as_an_ordinary_user() {
    let (sandbox, workspace, _) = room_of_another_process().await;
    assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
    let report = sandbox.report();
    assert_eq!(report.level, IsolationLevel::Soft, "{report:#?}");
    assert!(report.remedy.iter().any(|line| line.contains("systemd-run")), "{report:#?}");

    workspace.write(&[(path("src/a"), "x".as_bytes().to_vec().into())]).await.unwrap();
    let script = "id -u; cat src/a; touch src/made; mkdir locked; touch locked/x; chmod 000 locked src/a; \
                  touch /usr/x /etc/x 2>/dev/null; echo x > /dev/tcp/127.0.0.1/22";
    let ran = sandbox_room::run(&*workspace, shell(script), CancellationToken::new()).await.unwrap();
    assert_eq!(ran.outcome.end, ExecEnd::Exited(1), "{ran:?}");
    assert_eq!(ran.stdout, "1000\nx", "{ran:?}");
    assert_eq!(workspace.scan(SCAN).await.unwrap().files.len(), 2);

    let mark = sandbox_room::mark();
    let mut hog = shell(&format!("setsid sleep {mark} & head -c 1G /dev/zero | tail"));
    hog.limits.memory_bytes = 64 << 20;
    let ran = sandbox_room::run(&*workspace, hog, CancellationToken::new()).await.unwrap();
    assert_eq!(ran.outcome.end, ExecEnd::OutOfMemory);
    assert_eq!(processes_with(&mark), [0u32; 0]);
    workspace.close().await.unwrap();
}

/// N9: where namespaces are refused, the sandbox runs nothing, and says how to get them.
#[tokio::test]
async fn without_namespaces_it_refuses_and_tells_what_helps() {
    let data = tempfile::tempdir().unwrap();
    std::fs::set_permissions(data.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let inner = again("where_namespaces_are_refused", &data, "");
    // A user namespace of our own whose root may switch further ones off.
    let mut outer = Command::new("unshare");
    outer.args([
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"",
        "sh",
    ]);
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    passes(&mut outer);
}

#[tokio::test]
#[ignore = "run by another test, where namespaces are refused"]
async fn where_namespaces_are_refused() {
    let data = std::env::var("SANDBOX_TEST_DATA").expect("run by another test");
    let sandbox = LocalSandbox::new(sandbox_room::config(Path::new(&data))).await.unwrap();
    let report = sandbox.report();
    assert_eq!(report.level, IsolationLevel::Refused, "{report:#?}");
    let opened = sandbox.open(WorkspaceSpec { project: ProjectId::from_bits(1), epoch: 1 }).await;
    let Err(error @ SandboxError::Refused { .. }) = opened else { panic!("it opened") };
    assert!(error.to_string().contains("max_user_namespaces"), "{error}");
    assert!(error.action().contains("sudo sysctl -w user.max_user_namespaces=15000"), "{}", error.action());
}

/// Promise 7: processes share a data folder, and a worker that wakes after its lease writes where nobody reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_on_one_data_folder_leave_each_other_alone() {
    let room = Room::new().await;
    room.sh("echo early > App.tsx").await;
    let other = sandbox_room::sandbox(sandbox_room::config(room.data.path())).await;
    let next = sandbox_room::open(&other, 2).await;
    // The first process had been paused: it goes on with its claim.
    let ran = room.sh("echo late >> App.tsx; cat App.tsx").await;
    assert_eq!(ran.stdout, "early\nlate\n", "nobody took its files away");
    assert!(next.scan(SCAN).await.unwrap().files.is_empty(), "the later claim's workspace is its own");
    next.write(&[(path("App.tsx"), "of the successor".into())]).await.unwrap();
    assert_eq!(room.sh("cat App.tsx").await.stdout, "early\nlate\n");
    // Epochs are counted for each run: another run of the project may have the same one.
    let twin = sandbox_room::open(&other, 2).await;
    assert!(twin.scan(SCAN).await.unwrap().files.is_empty(), "what is opened twice is two places");
    drop((next, twin, other));
    let third = sandbox_room::sandbox(sandbox_room::config(room.data.path())).await;
    assert_eq!(room.sh("cat App.tsx").await.stdout, "early\nlate\n", "whoever comes and goes");
    drop(third);
}
