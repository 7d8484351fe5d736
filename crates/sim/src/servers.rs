//! Throwaway servers for tests: a PostgreSQL and a Redis of the test's own, on a free port of this machine, gone with the test.
//!
//! A keeper process waits for the end of the test's process, however that comes: it then ends the server and removes its folder.
//! Durability is real (fsync, synchronous commits), since tests and benches are about it. Must not touch any other server.
#![expect(clippy::disallowed_methods, reason = "owns the servers' processes, ports and folders")]
#![expect(clippy::expect_used, reason = "a server that does not start fails the test")]

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The URL of a PostgreSQL server where tests may make and drop databases, instead of one of their own.
const FOREIGN: &str = "BATON_TEST_POSTGRES";
/// Where Debian keeps the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user that PostgreSQL runs as when the test is root, which it refuses to be.
const USER: &str = "postgres";
/// How long a server may take to start or to stop: a loaded machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often is looked whether it has.
const LOOK: Duration = Duration::from_millis(20);
/// Ports that are tried: between the choice and the start, somebody else may take one.
const PORTS: u32 = 5;
/// Below those that Linux gives to clients (`ip_local_port_range`), above those of well-known services.
const FIXED_PORTS: std::ops::Range<u16> = 12_000..32_000;
const PORT_COUNT: u64 = 20_000;
/// Ports that are looked at for one that is free.
const PORT_LOOKS: u32 = 100;
/// Connections of a server: several stores with a pool each.
const CONNECTIONS: u32 = 200;
/// What a session says when it has done what it was asked.
const HELD: &str = "held";
/// What the keeper does: waits for the end of its input, then ends the server and removes the folder.
const KEEPER: &str = r#"
while read -r _; do :; done
if pid=$(cat "$1/pid" 2>/dev/null); then
  kill -QUIT "$pid"
  for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" || break; sleep 0.1; done
  kill -KILL "$pid"
fi
rm -rf "$1"
"#;

/// A process with a folder of its own; both are gone when it is dropped or when the test's process ends.
struct House {
    folder: PathBuf,
    keeper: Child,
    server: Option<Child>,
}

impl House {
    fn new(name: &str) -> Self {
        let folder = tempfile::Builder::new().prefix(&format!("baton-{name}-")).tempdir().expect("a folder").keep();
        // Another user's server lives in a folder below.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o711)).expect("permissions");
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Whoever ends the test's group does not end its keeper.
            .process_group(0)
            .spawn()
            .expect("sh");
        Self { folder, keeper, server: None }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Starts the server; what it says goes to its log.
    fn start(&mut self, mut server: Command) {
        let log = fs::File::options().create(true).append(true).open(self.log()).expect("a log");
        let child = server
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .expect("the server's program runs");
        fs::write(self.folder.join("pid"), child.id().to_string()).expect("a pid");
        self.server = Some(child);
    }

    /// Whether it answers; false if it has ended by itself before.
    fn wait_for(&mut self, answers: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        while !answers() {
            let ended = self.server.as_mut().is_none_or(|child| child.try_wait().expect("a child").is_some());
            assert!(began.elapsed() < PATIENCE, "the server does not answer:\n{}", self.last_words());
            if ended {
                self.server = None;
                return false;
            }
            sleep(LOOK);
        }
        true
    }

    fn last_words(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Sends a signal and waits for the end.
    fn end(&mut self, signal: Signal) {
        let Some(mut child) = self.server.take() else { return };
        // First, so that the keeper never ends another process that got the number.
        let _ = fs::remove_file(self.folder.join("pid"));
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        let _ = kill_process(pid, signal);
        let began = Instant::now();
        while child.try_wait().expect("a child").is_none() {
            if began.elapsed() > PATIENCE {
                let _ = child.kill();
            }
            sleep(LOOK);
        }
    }

    fn pid(&self) -> u32 {
        self.server.as_ref().expect("a server that runs").id()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// A port that was free a moment ago, and that no client is given as its own: while a server is away, one that tries to reach it
/// could be given its port, and reach itself.
pub fn free_port() -> u16 {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let ports = (0..PORT_LOOKS).map(|i| RandomState::new().hash_one((i, std::process::id())));
    let ports = ports.map(|chance| FIXED_PORTS.start + u16::try_from(chance % PORT_COUNT).unwrap_or(0));
    ports.into_iter().find(free).expect("a free port")
}

/// Letters that nobody guesses while a test runs.
fn secret() -> String {
    let part = |i: u32| RandomState::new().hash_one((i, std::process::id()));
    format!("{:016x}{:016x}", part(1), part(2))
}

fn done(what: &str, output: std::io::Result<Output>) -> String {
    let output = output.unwrap_or_else(|error| panic!("{what}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{what}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// A PostgreSQL server of the test's own, or databases of its own on the server that `BATON_TEST_POSTGRES` names.
pub struct Postgres {
    house: Option<Mutex<House>>,
    /// Of the server, ending before the database's name.
    server: String,
    /// After the database's name.
    query: String,
    /// Where databases are made from.
    maintenance: String,
    programs: PathBuf,
    port: u16,
    database: String,
    made: AtomicU32,
    /// Tells databases of this value from those of others on the same server.
    name: String,
}

impl Postgres {
    /// A fresh database on a server.
    ///
    /// # Panics
    /// There is no PostgreSQL on this machine, or it does not start.
    pub fn start() -> Self {
        match std::env::var(FOREIGN) {
            Ok(url) => Self::foreign(&url),
            Err(_) => Self::start_own(),
        }
    }

    /// A fresh database on a server of the test's own, which it may stop and kill.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_own() -> Self {
        let programs = programs();
        let mut house = House::new("postgres");
        let password = secret();
        initialise(&programs, &house.folder, &password);
        let address = |port| format!("postgres://{USER}:{password}@127.0.0.1:{port}/");
        let port = (0..PORTS).map(|_| free_port()).find(|port| {
            let server = server(&programs, &house.folder, *port);
            house.start(server);
            house.wait_for(|| is_ready(&programs, &address(*port)))
        });
        let Some(port) = port else { panic!("PostgreSQL did not start:\n{}", house.last_words()) };
        let mut own = Self {
            house: Some(Mutex::new(house)),
            server: address(port),
            query: String::new(),
            maintenance: "postgres".into(),
            programs,
            port,
            database: String::new(),
            made: AtomicU32::new(0),
            name: format!("baton_{}", secret()),
        };
        own.database = own.new_database();
        own
    }

    fn foreign(url: &str) -> Self {
        let (address, query) = url.split_once('?').map_or((url, String::new()), |(a, q)| (a, format!("?{q}")));
        let authority = address.find("://").map_or(0, |at| at + 3);
        let path = address[authority..].find('/').map(|at| authority + at);
        let (server, maintenance) = path.map_or((address, ""), |at| (&address[..at], &address[at + 1..]));
        let maintenance = if maintenance.is_empty() { "postgres" } else { maintenance };
        let mut foreign = Self {
            house: None,
            server: format!("{server}/"),
            query,
            maintenance: maintenance.into(),
            programs: PathBuf::new(),
            port: 0,
            database: String::new(),
            made: AtomicU32::new(0),
            name: format!("baton_{}", secret()),
        };
        foreign.database = foreign.new_database();
        foreign
    }

    /// The URL of the database that was made at the start.
    pub fn url(&self) -> String {
        self.database.clone()
    }

    /// A further empty database: its URL.
    ///
    /// # Panics
    /// The server refuses.
    pub fn new_database(&self) -> String {
        let name = format!("{}_{}", self.name, self.made.fetch_add(1, Ordering::Relaxed));
        self.maintain(&format!("CREATE DATABASE {name}"));
        self.url_of(&name)
    }

    /// A further database with what is in another one now, which nobody may be using: its URL.
    ///
    /// # Panics
    /// The server refuses.
    pub fn copy_of(&self, url: &str) -> String {
        let name = format!("{}_{}", self.name, self.made.fetch_add(1, Ordering::Relaxed));
        let template = self.ask(url, "SELECT current_database()");
        self.maintain(&format!("CREATE DATABASE {name} TEMPLATE {template}"));
        self.url_of(&name)
    }

    fn url_of(&self, database: &str) -> String {
        format!("{}{database}{}", self.server, self.query)
    }

    fn maintain(&self, statement: &str) -> String {
        self.ask(&self.url_of(&self.maintenance), statement)
    }

    /// Has a statement carried out on a database, as an administrator would: its answer, a line per row, `|` between columns.
    ///
    /// # Panics
    /// The server refuses.
    pub fn ask(&self, url: &str, statement: &str) -> String {
        let mut psql = self.psql(url, statement);
        done("psql", psql.output()).trim_end().to_owned()
    }

    /// The same; nothing if the server refuses or is away.
    pub fn try_ask(&self, url: &str, statement: &str) -> Option<String> {
        let output = self.psql(url, statement).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    fn psql(&self, url: &str, statement: &str) -> Command {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement, url]);
        psql
    }

    /// Begins a transaction on a database with a statement, and stays in the middle of it until the answer is dropped.
    ///
    /// # Panics
    /// The server refuses.
    pub fn hold(&self, url: &str, statement: &str) -> Held {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut session = psql.spawn().expect("psql");
        let script = format!("BEGIN;\n{statement};\n\\echo {HELD}\n");
        session.stdin.as_mut().expect("an input").write_all(script.as_bytes()).expect("psql reads");
        let said = BufReader::new(session.stdout.take().expect("an output")).lines();
        assert!(said.map_while(Result::ok).any(|line| line == HELD), "psql: {statement} was refused");
        Held(session)
    }

    fn own(&self) -> std::sync::MutexGuard<'_, House> {
        let house = self.house.as_ref().expect("a server of the test's own: Postgres::start_own");
        house.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the server's first process.
    ///
    /// # Panics
    /// It is not the test's own or does not run.
    pub fn pid(&self) -> u32 {
        self.own().pid()
    }

    /// Stops the server in good order: its connections are closed, and what was committed is kept.
    ///
    /// # Panics
    /// It is not the test's own.
    pub fn stop(&self) {
        self.own().end(Signal::INT);
    }

    /// Kills the server's first process; the others notice and leave everything as it is.
    ///
    /// # Panics
    /// It is not the test's own.
    pub fn kill9(&self) {
        self.own().end(Signal::KILL);
    }

    /// Starts the server again at the same address, after it was stopped or killed.
    ///
    /// # Panics
    /// It is not the test's own or does not start.
    pub fn start_again(&self) {
        let mut house = self.own();
        let began = Instant::now();
        // Processes of the one that was killed may still have its memory.
        loop {
            let server = server(&self.programs, &house.folder, self.port);
            house.start(server);
            if house.wait_for(|| is_ready(&self.programs, &self.server)) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "PostgreSQL does not start again:\n{}", house.last_words());
            sleep(LOOK);
        }
    }

    /// Stops and starts it.
    ///
    /// # Panics
    /// As [`Self::stop`] and [`Self::start_again`].
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.house.is_none() {
            for number in 0..*self.made.get_mut() {
                let drop = format!("DROP DATABASE IF EXISTS {}_{number} WITH (FORCE)", self.name);
                // Best effort: the test has its outcome already.
                let psql = Command::new("psql").args(["-Xq", "-c", &drop]).arg(self.url_of(&self.maintenance)).output();
                let _ = psql;
            }
        }
    }
}

/// A transaction that is not finished; taken back when this is dropped.
pub struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The folder of the newest PostgreSQL's programs.
fn programs() -> PathBuf {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let newest = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").exists())
        .max_by_key(|path| number(path));
    if let Some(version) = newest {
        return version.join("bin");
    }
    let told = Command::new("pg_config").arg("--bindir").output().ok().map(|output| output.stdout);
    let folder = told.map(|text| PathBuf::from(String::from_utf8_lossy(&text).trim())).unwrap_or_default();
    assert!(
        folder.join("initdb").exists(),
        "There is no PostgreSQL here: scripts/test installs it (Debian: apt-get install postgresql). Or name a server in {FOREIGN}."
    );
    folder
}

/// A program of PostgreSQL, as somebody else than root.
fn as_nobody_special(program: PathBuf) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--init-groups", "--"]).arg(program);
    command
}

fn initialise(programs: &Path, folder: &Path, password: &str) {
    let (data, file) = (folder.join("data"), folder.join("password"));
    fs::create_dir(&data).expect("a folder");
    fs::write(&file, password).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("permissions");
    if rustix::process::geteuid().is_root() {
        let number = |option| {
            let said = done("id", Command::new("id").args([option, USER]).output());
            said.trim().parse::<u32>().expect("a number")
        };
        for path in [&data, &file] {
            chown(path, Some(number("-u")), Some(number("-g"))).expect("the folder's owner");
        }
    }
    let mut initdb = as_nobody_special(programs.join("initdb"));
    initdb.args(["--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--no-sync", "--no-instructions"]);
    initdb.arg(format!("--username={USER}")).arg("--pwfile").arg(&file).arg("-D").arg(&data);
    done("initdb", initdb.current_dir("/").output());
}

fn server(programs: &Path, folder: &Path, port: u16) -> Command {
    let mut postgres = as_nobody_special(programs.join("postgres"));
    postgres.current_dir("/").arg("-D").arg(folder.join("data"));
    let connections = format!("max_connections={CONNECTIONS}");
    for setting in [&format!("port={port}"), &connections, "listen_addresses=127.0.0.1", "unix_socket_directories="] {
        postgres.args(["-c", setting]);
    }
    postgres
}

/// Whether the server answers to its password: another one on its port does not.
fn is_ready(programs: &Path, server: &str) -> bool {
    let psql = Command::new(programs.join("psql")).args(["-XAtq", "-c", "SELECT", server]).output();
    psql.is_ok_and(|output| output.status.success())
}

/// A Redis server of the test's own, with nothing on disk.
pub struct Redis {
    house: Mutex<House>,
    port: u16,
    password: String,
}

impl Redis {
    /// Starts one.
    ///
    /// # Panics
    /// There is no Redis on this machine, or it does not start.
    pub fn start() -> Self {
        let found = Command::new("redis-server").arg("--version").output();
        assert!(
            found.is_ok(),
            "There is no Redis here: scripts/test installs it (Debian: apt-get install redis-server)."
        );
        let password = secret();
        let mut house = House::new("redis");
        for _ in 0..PORTS {
            let port = free_port();
            let config = format!(
                "port {port}\nbind 127.0.0.1\nrequirepass {password}\nsave \"\"\nappendonly no\ndaemonize no\ndir {}\n",
                house.folder.display()
            );
            let file = house.folder.join("redis.conf");
            fs::write(&file, config).expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("permissions");
            house.start(redis(&house.folder));
            if house.wait_for(|| command(port, &password, "PING").is_ok()) {
                return Self { house: Mutex::new(house), port, password };
            }
        }
        panic!("Redis did not start:\n{}", house.last_words());
    }

    fn house(&self) -> std::sync::MutexGuard<'_, House> {
        self.house.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is, with its password.
    pub fn url(&self) -> String {
        format!("redis://:{}@127.0.0.1:{}/", self.password, self.port)
    }

    /// Number of its process.
    ///
    /// # Panics
    /// It does not run.
    pub fn pid(&self) -> u32 {
        self.house().pid()
    }

    /// Forgets everything that is stored in it.
    ///
    /// # Panics
    /// It does not run.
    pub fn flush(&self) {
        command(self.port, &self.password, "FLUSHALL").expect("Redis answers");
    }

    /// Ends it at once; its connections break.
    pub fn stop(&self) {
        self.house().end(Signal::KILL);
    }

    /// Starts it again at the same address.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_again(&self) {
        let mut house = self.house();
        let server = redis(&house.folder);
        house.start(server);
        let up = house.wait_for(|| command(self.port, &self.password, "PING").is_ok());
        assert!(up, "Redis did not start again:\n{}", house.last_words());
    }
}

fn redis(folder: &Path) -> Command {
    let mut redis = Command::new("redis-server");
    redis.current_dir("/").arg(folder.join("redis.conf"));
    redis
}

/// Sends one command and waits for its answer.
fn command(port: u16, password: &str, command: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // After QUIT the server closes the connection: the answers end there.
    write!(stream, "AUTH {password}\r\n{command}\r\nQUIT\r\n")?;
    let mut answers = String::new();
    stream.read_to_string(&mut answers)?;
    let good = answers.starts_with("+OK\r\n") && !answers.contains("\r\n-");
    if good { Ok(()) } else { Err(std::io::Error::other(answers)) }
}
