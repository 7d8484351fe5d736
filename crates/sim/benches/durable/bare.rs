//! The limits beside which the rest is read: bare commits of this disk, bare inserts of this PostgreSQL.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::figures::{ROUNDS, median, part, tell};
use super::house::Site;

/// How long one round lasts.
const ROUND: Duration = Duration::from_millis(500);
const DEBIAN: &str = "/usr/lib/postgresql";

/// Measures what the store of the site cannot pass.
pub fn measure(site: &Site) {
    match &site.servers {
        None => {
            std::fs::create_dir_all(site.place("bare").folder).expect("a folder");
            let (mut rates, mut times) = (vec![], vec![]);
            for _ in 0..ROUNDS {
                commits(&site.place("bare").folder, ROUND, &mut rates, &mut times);
            }
            tell("limit: raw commits of 4 KiB", median(&mut rates), "commits/s", "overwrite + fdatasync");
            tell("limit: raw commits of 4 KiB, p50", median(&mut times), "µs", "overwrite + fdatasync");
            tell("limit: raw commits of 4 KiB, p99", part(&mut times, 99), "µs", "overwrite + fdatasync");
        }
        Some((postgres, _)) => inserts(site, &postgres.new_database(), &|sql, url| postgres.ask(url, sql)),
    }
}

/// One page overwritten and synced, as often as it goes, by one writer.
pub fn commits(folder: &Path, lasting: Duration, rates: &mut Vec<f64>, times: &mut Vec<f64>) {
    let mut file = std::fs::File::create(folder.join("raw")).expect("a file");
    let page = [7_u8; 4_096];
    (0..256).for_each(|_| file.write_all(&page).expect("written"));
    file.sync_all().expect("synced");
    let (start, mut done) = (Instant::now(), 0_u32);
    while start.elapsed() < lasting {
        let began = Instant::now();
        file.seek(SeekFrom::Start(u64::from(done % 256) * 4_096)).expect("sought");
        file.write_all(&page).expect("written");
        file.sync_data().expect("synced");
        times.push(began.elapsed().as_secs_f64() * 1e6);
        done += 1;
    }
    rates.push(f64::from(done) / start.elapsed().as_secs_f64());
}

/// Single rows, each in a commit of its own, by PostgreSQL's own program.
fn inserts(site: &Site, database: &str, ask: &dyn Fn(&str, &str) -> String) {
    let Some(pgbench) = pgbench() else { return };
    ask("CREATE TABLE bare (n bigserial PRIMARY KEY, text text NOT NULL)", database);
    let folder = site.place("bare").folder;
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = folder.join("insert.sql");
    std::fs::write(&script, format!("INSERT INTO bare (text) VALUES ('{}');\n", "x".repeat(150))).expect("a file");
    for clients in ["1", "16", "64"] {
        let mut rates = vec![];
        for _ in 0..ROUNDS {
            let mut command = Command::new(&pgbench);
            command
                .args(["-n", "-M", "prepared", "-T", "1", "-c", clients, "-j", "1", "-f"])
                .arg(&script)
                .arg(database);
            let output = command.output().expect("pgbench");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let rate =
                said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
            rates.extend(rate);
        }
        let case = format!("limit: single-row commits at {clients} connections (pgbench)");
        tell(&case, median(&mut rates), "commits/s", &site.setting);
    }
}

fn pgbench() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin/pgbench")).find(|program| program.exists());
    found.or_else(|| Command::new("pgbench").arg("--version").output().ok().map(|_| "pgbench".into()))
}
