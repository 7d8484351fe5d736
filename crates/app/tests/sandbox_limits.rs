//! What a command may use up: every limit with and without control groups, and the output that is passed on.

#![expect(clippy::disallowed_methods, reason = "tests prepare the host's side themselves")]

mod sandbox_room;

use std::time::{Duration, Instant};

use contract::event::OutputStream;
use runtime::ports::sandbox::{ExecEnd, IsolationLevel, OutputLimits, Sandbox as _, SandboxError, ScanLimits};
use sandbox_room::{Room, SCAN, SOON, command, path, shell};
use tokio::sync::mpsc;

const MIB: u64 = 1 << 20;

/// The room with what the system gives, and one where limits are Baton's own work.
async fn rooms() -> [Room; 2] {
    let soft = Room::with(|config| config.control_groups = false).await;
    assert_eq!(soft.sandbox.report().level, IsolationLevel::Soft, "the level must say that the kernel keeps no limits");
    [Room::new().await, soft]
}

/// N9: memory of all processes together.
#[tokio::test]
async fn a_memory_hog_is_ended_and_called_so() {
    for room in rooms().await {
        let mut one = shell("head -c 2G /dev/zero | tail");
        one.limits.memory_bytes = 128 * MIB;
        let mut several = shell(
            "for i in 1 2 3 4 5 6; do (head -c 60M /dev/zero | tail -c 60M | (sleep 2; cat) >/dev/null) & done; wait; exit 7",
        );
        several.limits.memory_bytes = 128 * MIB;
        let mut shared = shell("head -c 500M /dev/zero > /tmp/shm/hog && tail /tmp/shm/hog; exit 7");
        shared.limits.memory_bytes = 128 * MIB;
        shared.limits.tmp_bytes = 600 * MIB;
        for spec in [one, several] {
            let start = Instant::now();
            let ran = room.run(spec.clone()).await.unwrap();
            assert_eq!(ran.outcome.end, ExecEnd::OutOfMemory, "{spec:?} {ran:?}");
            assert!(start.elapsed() < SOON);
        }
        // The next command has its whole memory again.
        let mut modest = shell("head -c 50M /dev/zero | tail -c 50M | wc -c");
        modest.limits.memory_bytes = 128 * MIB;
        let ran = room.run(modest).await.unwrap();
        assert_eq!((ran.outcome.end, ran.stdout.trim()), (ExecEnd::Exited(0), "52428800"), "{ran:?}");
    }
}

/// N9: processes and threads; and none is left.
#[tokio::test]
async fn a_fork_bomb_stays_small_and_dies_whole() {
    for room in rooms().await {
        let mark = sandbox_room::mark();
        let mut bomb = shell(&format!("f() {{ sleep {mark} & f | f & wait; }}; f"));
        bomb.limits.pids = 40;
        bomb.timeout = Duration::from_secs(3);
        let running = room.run(bomb);
        tokio::pin!(running);
        let mut most = 0;
        let ran = loop {
            tokio::select! {
                ran = &mut running => break ran.unwrap(),
                () = tokio::time::sleep(Duration::from_millis(50)) => most = most.max(sandbox_room::processes_with(&mark).len()),
            }
        };
        assert!(matches!(ran.outcome.end, ExecEnd::TimedOut | ExecEnd::Exited(_)), "{:?}", ran.outcome);
        assert!((1..=40).contains(&most), "{most} processes");
        assert_eq!(sandbox_room::processes_with(&mark), [0u32; 0], "some of the bomb is left");
    }
}

/// N9: one file, all files, and the private folder for temporary files.
#[tokio::test]
async fn disk_use_is_bounded() {
    let room = Room::new().await;
    let mut one_file = shell("dd if=/dev/zero of=big bs=64k; truncate -s 1T sparse; ls -ln big sparse");
    one_file.limits.file_bytes = 2 * MIB;
    let ran = room.run(one_file).await.unwrap();
    assert!(ran.stdout.contains(" 2097152 ") && !ran.stdout.contains("1099511627776"), "{ran:?}");

    let ran = room.run({
        let mut temporary = shell("dd if=/dev/zero of=/tmp/big bs=64k; df --output=size -k /tmp | tail -1");
        temporary.limits.tmp_bytes = 4 * MIB;
        temporary
    });
    assert_eq!(ran.await.unwrap().stdout.trim(), "4096");

    let mut many = shell("i=0; while :; do head -c 1M /dev/urandom > f$i; i=$((i+1)); done");
    many.limits.disk_bytes = 24 * MIB;
    let ran = room.run(many).await.unwrap();
    assert_eq!(ran.outcome.end, ExecEnd::OutOfDisk, "{ran:?}");

    // What is there can be looked at within limits only.
    let tight = ScanLimits { files: 3, ..SCAN };
    let scan = room.workspace.scan(ScanLimits { file_bytes: 2 * MIB, ..tight }).await.unwrap();
    assert!(scan.truncated && scan.files.len() == 3, "{scan:?}");
    let read = room.workspace.read(&path("f0"), 1_000).await;
    assert!(matches!(read, Err(SandboxError::TooLarge { .. })), "{read:?}");
    let ran = room.sh("mkdir dist && mv f0 f1 f2 f3 dist").await;
    assert_eq!(ran.outcome.end, ExecEnd::Exited(0));
    for limits in
        [tight, ScanLimits { file_bytes: 1_000, ..SCAN }, ScanLimits { bytes: 2 * MIB, file_bytes: 2 * MIB, ..SCAN }]
    {
        let collected = room.workspace.collect(&path("dist"), limits).await;
        assert!(matches!(collected, Err(SandboxError::TooLarge { .. })), "{limits:?}");
    }
}

/// A processor share is kept by the control group; without one, by seconds per process.
#[tokio::test]
async fn processor_time_is_bounded() {
    let [shared, seconds] = rooms().await;
    let mut spin = shell("while :; do :; done");
    spin.limits.cpu_percent = 50;
    spin.timeout = Duration::from_secs(2);
    let ran = seconds.run(spin.clone()).await.unwrap();
    assert!(matches!(ran.outcome.end, ExecEnd::Signalled(24) | ExecEnd::TimedOut), "{ran:?}");
    if shared.sandbox.report().features.iter().any(|feature| feature.feature == "cpu_limit" && feature.in_force) {
        let mut measured =
            shell("end=$((SECONDS+2)); while ((SECONDS<end)); do :; done; times | tail -2 | head -1; times | head -1");
        measured.limits.cpu_percent = 25;
        let ran = shared.run(measured).await.unwrap();
        let used =
            ran.stdout.lines().last().and_then(|line| line.split(['m', 's']).nth(1)?.parse::<f64>().ok()).unwrap();
        assert!(used < 1.2, "used {used} s of 2 s at a quarter of a core");
    }
}

/// E9's counterpart: output is read to its end always and passed on within its limit, with the gap told.
#[tokio::test]
async fn output_never_blocks_a_command_and_is_capped() {
    let room = Room::new().await;
    // Both pipes are full many times over.
    let both = room.sh("head -c 700K /dev/zero | tr '\\0' o; head -c 700K /dev/zero | tr '\\0' e >&2; echo end").await;
    assert_eq!(both.outcome.end, ExecEnd::Exited(0));
    assert!(both.outcome.output_capped && both.stdout.ends_with("end\n"), "{:?}", both.outcome);
    assert_eq!((both.stdout.len(), both.stderr.len()), (512 * 1024, 512 * 1024));

    let mut endless = shell("yes");
    endless.timeout = Duration::from_secs(1);
    endless.output = OutputLimits { head_bytes: 1_000, tail_bytes: 10 };
    let ran = room.run(endless).await.unwrap();
    assert_eq!(ran.outcome.end, ExecEnd::TimedOut);
    assert!(ran.outcome.output_capped && ran.stdout.len() <= 1_010);

    // A receiver that takes nothing delays only itself.
    let (output, _untouched) = mpsc::channel(1);
    let mut loud = shell("yes");
    loud.timeout = Duration::from_millis(500);
    let outcome = tokio::time::timeout(SOON, room.workspace.exec(loud, output, Default::default())).await;
    assert_eq!(outcome.expect("exec waits for its receiver").unwrap().end, ExecEnd::TimedOut);

    // Pieces tell how much was left out before them.
    let (output, mut chunks) = mpsc::channel(1_000);
    let mut counted = shell("head -c 100000 /dev/zero");
    counted.output = OutputLimits { head_bytes: 10, tail_bytes: 20 };
    room.workspace.exec(counted, output, Default::default()).await.unwrap();
    let mut seen = 0;
    while let Some(chunk) = chunks.recv().await {
        assert_eq!(chunk.stream, OutputStream::Stdout);
        seen += chunk.skipped + chunk.bytes.len() as u64;
    }
    assert_eq!(seen, 100_000);
}

/// Commands that cannot be started are told apart from commands that failed.
#[tokio::test]
async fn what_cannot_be_started_is_an_error_and_what_fails_is_an_end() {
    let room = Room::new().await;
    let missing = room.run(command("no-such-program", &[])).await;
    assert!(matches!(missing, Err(SandboxError::CommandNotFound(name)) if name == "no-such-program"));
    let mut nowhere = command("true", &[]);
    nowhere.cwd = Some(path("not/there"));
    assert!(matches!(room.run(nowhere).await, Err(SandboxError::BadCommand(_))));
    let long = "x".repeat(700 * 1024);
    assert!(matches!(room.run(command("echo", &[&long])).await, Err(SandboxError::BadCommand(_))));
    assert!(matches!(room.run(command("", &[])).await, Err(SandboxError::BadCommand(_))));

    for (script, end) in
        [("exit 3", ExecEnd::Exited(3)), ("kill -SEGV $$", ExecEnd::Signalled(11)), ("exit 0", ExecEnd::Exited(0))]
    {
        let ran = room.sh(script).await;
        assert_eq!(ran.outcome.end, end, "{script}");
        assert_eq!(ran.outcome.succeeded(), script == "exit 0");
    }
    // Arguments are passed as they are: there is no shell in between.
    let ran = room.run(command("printf", &["%s|", "a b", "$HOME", "*", "'", "\n"])).await.unwrap();
    assert_eq!(ran.stdout, "a b|$HOME|*|'|\n|");
}
