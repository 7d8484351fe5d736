//! What processes of one Baton share: a database, a Redis, an objects folder, the address of previews, the owner's token.
//!
//! It judges how these are written, by role, and shows no password. Whether somebody answers there is seen when the adapters open.

use std::fmt;
use std::path::{Path, PathBuf};

use adapters::model::Secret;
use adapters::store::postgres::is_address;
use reqwest::Url;

use super::file::Written;
use super::{Fault, PORT, Raw, Role};
use crate::data::is_token;

/// Below this name browsers find this machine, whatever comes before it (RFC 6761).
const PREVIEW_HOST: &str = "localhost";
/// Longest name of a host.
const HOST_BYTES: usize = 253;
/// Longest part of one.
const LABEL_BYTES: usize = 63;
/// What stands where a password stood.
const MARK: &str = "***";

/// The address of a service, perhaps with a password. It is shown without it, and without what could hold one.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceUrl {
    url: String,
    shown: String,
    password: Option<String>,
}

impl ServiceUrl {
    fn new(url: &Url) -> Self {
        let user = url.username();
        let who = match (user, url.password()) {
            ("", None) => String::new(),
            (user, None) => format!("{user}@"),
            (user, Some(_)) => format!("{user}:{MARK}@"),
        };
        let host = url.host_str().unwrap_or_default();
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let shown = format!("{}://{who}{host}{port}{}", url.scheme(), url.path().trim_end_matches('/'));
        Self { url: url.as_str().to_owned(), shown, password: url.password().map(str::to_owned) }
    }

    /// The password in it, as it is written there.
    pub fn password(&self) -> Option<String> {
        self.password.clone()
    }

    /// The whole address, for the adapter that opens it.
    pub fn expose(&self) -> &str {
        &self.url
    }

    fn holds_password(&self) -> bool {
        self.shown.contains(MARK) || self.url.contains("password=")
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceUrl({self})")
    }
}

/// What processes share.
#[derive(Debug, Default, PartialEq)]
pub struct Shared {
    /// The PostgreSQL database; without it, SQLite in the data folder.
    pub database: Option<ServiceUrl>,
    /// The Redis that carries wake-ups between processes.
    pub redis: Option<ServiceUrl>,
    /// Where objects are, if not in the data folder.
    pub objects: Option<PathBuf>,
    /// Host and port below which browsers find previews, if not at the one server that there is.
    pub previews: Option<(String, u16)>,
    /// The owner's token, if it is not the data folder's.
    pub owner_token: Option<Secret>,
}

impl Shared {
    /// Where browsers find previews, for a server on this port.
    pub fn previews(&self, port: u16) -> (String, u16) {
        self.previews.clone().unwrap_or_else(|| (PREVIEW_HOST.to_owned(), port))
    }
}

/// Judges what the sources say together, and adds what is wrong to `faults`.
pub fn resolve(raw: &Raw, written: &Written, warnings: &mut Vec<String>, faults: &mut Vec<Fault>) -> Shared {
    let file = raw.file.as_ref().map(|(path, _)| path.as_path());
    let pick = |variable: &'static str, key: &str, in_file: &Option<String>| -> Option<(String, String)> {
        let from_environment = raw.variable(variable).map(|value| (variable.to_owned(), value.to_owned()));
        let place = || file.map(|path| format!("{}, {key}", path.display())).unwrap_or_default();
        from_environment.or_else(|| in_file.clone().map(|value| (place(), value)))
    };
    let mut judge = |placed: Option<(String, String)>, parse: fn(&str) -> Result<ServiceUrl, String>, fix: &str| {
        let (place, text) = placed?;
        parse(&text).map_err(|what| faults.push(Fault::new(place, what, fix))).ok()
    };
    let database = pick("BATON_DATABASE_URL", "database", &written.database);
    let (has_database, fix) = (database.is_some(), "write it as postgres://user:password@host:5432/database");
    let database = judge(database, database_url, fix);
    let fix = "write it as redis://:password@host:6379/0, or rediss://… for TLS";
    let redis = judge(pick("BATON_REDIS_URL", "redis", &written.redis), redis_url, fix);
    let previews = pick("BATON_PREVIEWS", "previews", &written.previews).and_then(|(place, text)| {
        let parsed = host_and_port(&text);
        if parsed.is_none() {
            let fix = "write a host and a port, such as localhost:7420; a project is found at <name>.<host>:<port>";
            faults.push(Fault::new(place, format!("`{text}` is no host and port"), fix));
        }
        parsed
    });
    let objects = pick("BATON_OBJECTS", "objects", &written.objects).and_then(|(place, text)| {
        let absolute = std::path::absolute(&text).ok();
        if absolute.is_none() {
            faults.push(Fault::new(place, "is no path", "name the folder that all processes share"));
        }
        absolute
    });
    let owner_token = raw.variable(OWNER_TOKEN).and_then(|text| {
        let token = owner_token_of(text);
        if token.is_none() {
            faults.push(Fault::new(OWNER_TOKEN, "*** is no token", TOKEN_FIX));
        }
        token
    });
    let previews = previews.or_else(|| usual_previews(raw, written));
    let shared = Shared { database, redis, objects, previews, owner_token };
    by_role(raw.role, has_database, file, &shared, warnings, faults);
    shared
}

/// Where previews are if nothing is said. Every server shows all of them, so the pages of one find them at its own port, also when no
/// other server lives. A worker has none; what it writes into logs names the usual one.
fn usual_previews(raw: &Raw, written: &Written) -> Option<(String, u16)> {
    match raw.role {
        Role::Up | Role::Server => None,
        Role::Worker => Some((PREVIEW_HOST.to_owned(), written.port.unwrap_or(PORT))),
    }
}

/// What a role needs, and what makes no sense for it.
fn by_role(
    role: Role,
    has_database: bool,
    file: Option<&Path>,
    shared: &Shared,
    warnings: &mut Vec<String>,
    faults: &mut Vec<Fault>,
) {
    if let (Role::Server | Role::Worker, false) = (role, has_database) {
        let name = role.name();
        let or_file = file.map(|path| format!(" (or `database` in {})", path.display())).unwrap_or_default();
        faults.push(Fault::new(
            "BATON_DATABASE_URL",
            format!("is missing: `baton {name}` shares its database with other processes, and SQLite's belongs to one: it locks the data folder"),
            format!("set it{or_file} to a PostgreSQL database, postgres://user:password@host:5432/database; or use `baton up`, which is server and worker in one process and needs none"),
        ));
    }
    match (role, &shared.redis, has_database) {
        (Role::Server | Role::Worker, None, _) => warnings.push(
            "no BATON_REDIS_URL is set: other processes are heard by polling, about every second, instead of at once"
                .into(),
        ),
        (Role::Up, Some(_), false) => {
            warnings.push("Redis is not used: with SQLite there is only one process, which needs no messages".into())
        }
        (Role::Up | Role::Server | Role::Worker, _, _) => {}
    }
}

impl Written {
    /// Whether the file holds something that only its owner should read.
    pub fn holds_secret(&self) -> bool {
        let url = |text: &Option<String>| {
            text.as_deref()
                .and_then(|text| Url::parse(text).ok())
                .is_some_and(|url| ServiceUrl::new(&url).holds_password())
        };
        self.model.key.is_some() || url(&self.database) || url(&self.redis)
    }
}

/// The variable that holds the owner's token where processes share no data folder.
pub const OWNER_TOKEN: &str = "BATON_OWNER_TOKEN";
/// What to do about one that is none.
pub const TOKEN_FIX: &str =
    "set it to 64 hexadecimal digits, the same for every server: `openssl rand -hex 32` makes some";

/// The owner's token as it was given in the environment.
pub fn owner_token_of(text: &str) -> Option<Secret> {
    let token = text.trim().to_ascii_lowercase();
    is_token(&token).then(|| Secret::new(&token)).flatten()
}

/// The address as it will be used. Errors never repeat it: where it does not parse, nobody knows which part is the password.
fn service(text: &str, schemes: &[&str], kind: &str) -> Result<Url, String> {
    if text.contains('#') {
        return Err("*** has a `#`, which in a password is written %23".into());
    }
    let url = Url::parse(text).map_err(|error| format!("*** is no address: {error}"))?;
    if !schemes.contains(&url.scheme()) {
        return Err(format!(
            "*** is no address of {kind}: it begins with neither {}",
            schemes.join(":// nor ") + "://"
        ));
    }
    Ok(url)
}

fn database_url(text: &str) -> Result<ServiceUrl, String> {
    let url = service(text, &["postgres", "postgresql"], "a PostgreSQL database")?;
    let host = url.host_str().is_some_and(|host| !host.is_empty());
    if !host && !url.query_pairs().any(|(name, _)| name == "host") {
        return Err(format!("{} names no host", ServiceUrl::new(&url)));
    }
    if url.path().trim_matches('/').is_empty() && !url.query_pairs().any(|(name, _)| name == "dbname") {
        return Err(format!("{} names no database", ServiceUrl::new(&url)));
    }
    if let Some((name, _)) = url.query_pairs().find(|(name, value)| !is_setting(name, value)) {
        return Err(format!("{}: `{name}` has a value after the `?` that it cannot have", ServiceUrl::new(&url)));
    }
    Ok(ServiceUrl::new(&url))
}

/// Whether the database's client understands a setting of its address.
fn is_setting(name: &str, value: &str) -> bool {
    let mut url = Url::parse("postgres://host/database");
    if let Ok(url) = &mut url {
        url.query_pairs_mut().append_pair(name, value);
    }
    url.is_ok_and(|url| is_address(url.as_str()))
}

fn redis_url(text: &str) -> Result<ServiceUrl, String> {
    let url = service(text, &["redis", "rediss"], "a Redis")?;
    let shown = ServiceUrl::new(&url);
    if url.host_str().is_none_or(str::is_empty) {
        return Err(format!("{shown} names no host"));
    }
    let number = url.path().trim_matches('/');
    if !number.is_empty() && number.parse::<u16>().is_err() {
        return Err(format!("{shown} names no database: the part after the host is a number, 0 if it is left out"));
    }
    if url.query().is_some() {
        return Err(format!("{shown} has a `?`; there is nothing that could be set so"));
    }
    Ok(shown)
}

fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.trim().rsplit_once(':')?;
    let host = host.to_ascii_lowercase();
    let label = |label: &str| {
        (1..=LABEL_BYTES).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A name comes before it, which an address of numbers cannot have.
    let numbers = host.split('.').next_back().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    let port = port.parse::<u16>().ok().filter(|port| *port > 0)?;
    (host.len() <= HOST_BYTES && !numbers && host.split('.').all(label)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (text, shown) in [
            ("postgres://me:hush@db.test:5433/baton?sslmode=require", "postgres://me:***@db.test:5433/baton"),
            ("postgresql://me@db/baton", "postgresql://me@db/baton"),
            ("postgres:///baton?host=/run/postgresql&password=hush", "postgres:///baton"),
            ("redis://:hush@cache", "redis://:***@cache"),
            ("rediss://me:hush@cache:1/2", "rediss://me:***@cache:1/2"),
        ] {
            let url = database_url(text).or_else(|_| redis_url(text)).unwrap();
            assert_eq!((url.to_string().as_str(), url.expose()), (shown, text));
            assert!(!format!("{url:?}").contains("hush"));
            assert_eq!(url.holds_password(), text.contains("hush"), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_without_repeating_it() {
        type Parse = fn(&str) -> Result<ServiceUrl, String>;
        let table: &[(Parse, &str, &str)] = &[
            (database_url, "db.test:5432/hush", "no address of a PostgreSQL"),
            (database_url, "mysql://me:hush@db/x", "neither postgres:// nor postgresql://"),
            (database_url, "postgres://me:hu#sh@db/x", "%23"),
            (database_url, "postgres://me:hush@db", "names no database"),
            (database_url, "postgres://me:hush@db:port/x", "no address"),
            (database_url, "postgres:///x", "names no host"),
            (database_url, "postgres://me:hush@h/x?sslmode=maybe", "`sslmode`"),
            (redis_url, "redis://:hush@h/x", "number"),
            (redis_url, "redis://:hush@", "no address"),
            (redis_url, "rediss://:hush@h/?prefix=hush", "`?`"),
            (redis_url, "unix:///hush", "neither redis:// nor rediss://"),
        ];
        for (parse, text, expected) in table {
            let what = parse(text).unwrap_err();
            assert!(what.contains(expected) && !what.contains("hush"), "{text}: {what}");
        }
    }

    #[test]
    fn each_role_gets_what_it_needs_and_is_told_what_is_missing() {
        let resolve = |role, port, environment: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let environment = environment.iter().map(owned).collect();
            let raw = Raw { role, port, environment, ..Raw::default() };
            let (mut warnings, mut faults) = (vec![], vec![]);
            let shared = resolve(&raw, &Written::default(), &mut warnings, &mut faults);
            let places: Vec<_> = faults.into_iter().map(|fault| fault.place).collect();
            (shared.previews(7), warnings.join("\n"), places)
        };
        let (database, redis) = (("BATON_DATABASE_URL", "postgres://h/d"), ("BATON_REDIS_URL", "redis://h"));
        for role in [Role::Server, Role::Worker] {
            let (previews, warnings, faults) = resolve(role, None, &[]);
            let expected = if role == Role::Worker { PORT } else { 7 };
            assert_eq!((previews.1, faults), (expected, vec!["BATON_DATABASE_URL".to_owned()]));
            assert!(warnings.contains("polling"), "{warnings}");
            let (_, warnings, faults) = resolve(role, None, &[database, redis]);
            assert_eq!((warnings.as_str(), faults.len()), ("", 0));
        }
        let (previews, warnings, _) = resolve(Role::Server, Some(9), &[database, redis]);
        assert_eq!((previews.1, warnings.as_str()), (7, ""), "a server's own port, whatever the others do");
        let told = [database, redis, ("BATON_PREVIEWS", "localhost:9")];
        let (previews, warnings, _) = resolve(Role::Server, Some(9), &told);
        assert_eq!((previews.1, warnings.as_str()), (9, ""));

        assert_eq!(resolve(Role::Up, Some(9), &[]), (("localhost".to_owned(), 7), String::new(), vec![]));
        assert!(resolve(Role::Up, None, &[redis]).1.contains("Redis is not used"));
        let (_, _, faults) = resolve(Role::Worker, None, &[("BATON_DATABASE_URL", "sqlite:x")]);
        assert_eq!(faults.len(), 1, "one that is wrong is not missing, too");
    }

    #[test]
    fn previews_have_a_name_and_a_port() {
        let some = |host: &str, port| Some((host.to_owned(), port));
        for (text, expected) in [
            ("localhost:7420", some("localhost", 7420)),
            ("Apps.Example.org:80", some("apps.example.org", 80)),
            ("127.0.0.1:7420", None),
            ("[::1]:7420", None),
            ("localhost", None),
            ("localhost:0", None),
            ("http://localhost:1", None),
            (".localhost:1", None),
            ("a_b:1", None),
            ("", None),
        ] {
            assert_eq!(host_and_port(text), expected, "{text}");
        }
    }
}
