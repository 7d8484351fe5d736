//! A Baton of its own for a test: data folder, server, scripted model, and a template in miniature. All of it ends with the test.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The program.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
/// How long the system may take to make something true.
const MOST: Duration = Duration::from_secs(60);

/// A build tool in miniature: it copies what the page is made of, or fails where the source asks for it.
const VITE: &str = r#"
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
const source = readFileSync("src/App.tsx", "utf8");
if (source.includes("BREAK THE BUILD")) {
  console.error("src/App.tsx: the build was asked to fail");
  process.exit(1);
}
mkdirSync("dist", { recursive: true });
cpSync("index.html", "dist/index.html");
writeFileSync("dist/app.txt", source);
"#;

/// A program that is killed when the test ends, however it ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A data folder, and the servers that a test starts.
pub struct House {
    pub folder: TempDir,
    server: Option<Running>,
    model: Option<(Running, String)>,
}

impl House {
    /// An empty data folder that finds the template in miniature.
    pub fn empty() -> Self {
        let folder = TempDir::with_prefix("baton-door-").unwrap();
        let template = folder.path().join("templates/miniature-0001");
        for (path, text) in [
            ("package.json", r#"{"name": "app", "type": "module", "scripts": {"build": "vite build"}}"#),
            ("package-lock.json", r#"{"packages": {"": {}}}"#),
            ("instant.json", r#"{"format": 1, "packages": {}, "modules": {}, "imports": {}}"#),
            ("index.html", "<!doctype html><title>Miniature</title>\n"),
            ("src/App.tsx", "nothing yet\n"),
            ("node_modules/vite/bin/vite.js", VITE),
            ("node_modules/vite/package.json", r#"{"name": "vite", "type": "module"}"#),
        ] {
            let path = template.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        symlink("miniature-0001", folder.path().join("templates/react-vite")).unwrap();
        Self { folder, server: None, model: None }
    }

    /// The same with a scripted model and a server that uses it.
    pub fn with_script(script: &str) -> Self {
        let mut house = Self::empty();
        house.start_model(script);
        house.start();
        house
    }

    pub fn data(&self) -> &Path {
        self.folder.path()
    }

    pub fn start_model(&mut self, script: &str) {
        let path = self.data().join("script.yaml");
        fs::write(&path, script).unwrap();
        let mut child =
            Running(baton().arg("model").arg("--script").arg(&path).stdout(Stdio::piped()).spawn().unwrap());
        let url = Lines::of(&mut child.0).next("http://");
        self.model = Some((child, url));
    }

    /// Starts the server and waits until it says where it is.
    pub fn start(&mut self) {
        let port = self.note().map_or(0, |note| note["port"].as_u64().unwrap());
        let mut command = self.up(port);
        let mut child = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        Lines::of(&mut child.0).next("Baton is up");
        self.server = Some(child);
    }

    /// `baton up` on this folder, with the scripted model if there is one.
    pub fn up(&self, port: u64) -> Command {
        let mut command = self.role("up");
        command.args(["--no-open", "--port", &port.to_string()]);
        command
    }

    /// A process of this folder that stays, with the scripted model if there is one.
    pub fn role(&self, role: &str) -> Command {
        let mut command = baton();
        command.arg(role).arg("--data").arg(self.data());
        if let Some((_, url)) = &self.model {
            command.env("BATON_MODEL", "scripted").env("BATON_MODEL_URL", url);
        }
        command
    }

    /// Ends the server as a power cut would.
    pub fn kill_server(&mut self) {
        drop(self.server.take());
    }

    /// Asks the server to stop, and waits until it has.
    pub fn stop_server(&mut self) {
        let mut server = self.server.take().unwrap();
        signal(&server, Signal::TERM);
        assert_eq!(exit_code(&mut server), Some(0), "a stop is no failure");
    }

    /// What the server wrote about itself.
    pub fn note(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.data().join("server.json")).ok()?).ok()
    }

    /// What the server answers for a path under a host's name, headers and all.
    pub fn get(&self, path: &str, host: &str) -> String {
        get(u16::try_from(self.note().unwrap()["port"].as_u64().unwrap()).unwrap(), path, host)
    }

    /// A command on this folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = baton();
        command.args(args).arg("--data").arg(self.data());
        command
    }

    /// A command on this folder, to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// A command that prints JSON lines, while it runs.
    pub fn follow(&self, args: &[&str]) -> (Running, Lines) {
        let mut child = Running(self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let lines = Lines::of(&mut child.0);
        (child, lines)
    }

    /// What the scripted model was asked so far, oldest first.
    pub fn model_requests(&self) -> Vec<Value> {
        let (_, url) = self.model.as_ref().unwrap();
        let address = url.strip_prefix("http://").unwrap().trim_end_matches("/v1");
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        let answer = get(port, "/__requests", address);
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        body["requests"].as_array().or(body.as_array()).unwrap().clone()
    }

    /// All events of a run.
    pub fn events(&self, run: &str) -> Vec<Value> {
        json_lines(&self.run(&["events", run, "--json"]))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // A server that a command started is nobody's child any more.
        if self.server.is_none()
            && let Some(pid) = self.note().and_then(|note| i32::try_from(note["pid"].as_u64()?).ok())
            && is_baton(pid)
        {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

fn is_baton(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.starts_with(BATON.as_bytes()))
}

/// What a server answers for a path under a host's name, headers and all.
pub fn get(port: u16, path: &str, host: &str) -> String {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// The program, with nothing of Baton's in its environment.
pub fn baton() -> Command {
    let mut command = Command::new(BATON);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BATON_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Lines of a program's standard output.
pub struct Lines(BufReader<ChildStdout>);

impl Lines {
    pub fn of(child: &mut Child) -> Self {
        Self(BufReader::new(child.stdout.take().unwrap()))
    }

    /// The next line that holds a text.
    pub fn next(&mut self, wanted: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "`{wanted}` never came; there was:\n{seen}");
            if line.contains(wanted) {
                return line.trim_end().to_owned();
            }
            seen.push_str(&line);
        }
    }

    /// The next event of a type.
    pub fn event(&mut self, kind: &str) -> Value {
        serde_json::from_str(&self.next(&format!("\"type\":\"{kind}\""))).unwrap()
    }

    /// Everything that is still to come.
    pub fn rest(mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        text
    }
}

/// Waits for the end of a program and gives its exit code. What never ends is ended by the test runner's own limit.
pub fn exit_code(child: &mut Running) -> Option<i32> {
    child.0.wait().unwrap().code()
}

/// Waits until something that only the system knows has come true.
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < MOST, "{what}: this never came true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a program.
pub fn signal(child: &Running, signal: Signal) {
    kill_process(Pid::from_child(&child.0), signal).unwrap();
}

/// The lines that a program printed, as JSON.
pub fn json_lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{output:?}"));
    text.lines().map(parse).collect()
}

/// The number that a shell sees, and what a person reads.
pub fn told(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Processes whose command line holds a text.
pub fn processes(text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&words).contains(text) {
            found.push(entry.path());
        }
    }
    found
}
