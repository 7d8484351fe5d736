//! Looking after what is stored: `baton check` finds what a log, a version or a row lacks, and names the run.

use std::fs;
use std::path::PathBuf;

use crate::house::{House, json_lines, told};

const SCRIPT: &str = r#"
name: an app
rules:
  - name: app
    respond: |
      <file path="src/App.tsx">
      the app
      </file>
      <done/>
"#;

/// Everything that lies in a folder of objects.
fn objects(house: &House) -> Vec<PathBuf> {
    let shards = fs::read_dir(house.data().join("objects")).unwrap().map(|shard| shard.unwrap().path());
    shards.flat_map(|shard| fs::read_dir(shard).unwrap().map(|file| file.unwrap().path())).collect()
}

/// What a check prints, and its exit code.
fn check(house: &House) -> (Option<i32>, String) {
    let output = house.run(&["check"]);
    (told(&output).0, String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_check_reads_every_object_and_every_event_and_names_the_run() {
    let mut house = House::with_script(SCRIPT);
    let events = json_lines(&house.run(&["run", "an app", "--json"]));
    let run = events[0]["run_id"].as_str().unwrap().to_owned();
    let (code, text) = check(&house);
    assert!(
        code == Some(0) && text.contains(": 1 run, ") && text.contains(&format!("{} events", events.len())),
        "{text}"
    );

    let objects = objects(&house);
    assert!(objects.len() >= 5, "files, and manifests of a version and of a build: {objects:?}");
    for object in &objects {
        let bytes = fs::read(object).unwrap();
        let hash = object.components().rev().take(2).map(|part| part.as_os_str().to_str().unwrap());
        let hash: String = hash.collect::<Vec<_>>().into_iter().rev().collect();
        fs::remove_file(object).unwrap();
        let (code, text) = check(&house);
        let told = text.lines().filter(|line| line.contains(&hash) && line.contains(&run)).count();
        assert!(code == Some(1) && told == 1 && text.contains("is missing"), "{hash}: {text}");
        fs::write(object, [&bytes[..], b"!"].concat()).unwrap();
        let (code, text) = check(&house);
        assert!(code == Some(1) && text.contains(&format!("{hash}, which is damaged")), "{text}");
        fs::write(object, bytes).unwrap();
    }
    assert_eq!(check(&house).0, Some(0), "all is there again");

    house.stop_server();
    let file = house.data().join("baton.db");
    let mut bytes = fs::read(&file).unwrap();
    let wanted = br#"{"type":"turn_completed""#;
    // The one that counts, and copies in pages that were moved.
    let places = bytes.windows(wanted.len()).enumerate().filter(|(_, window)| window == wanted);
    let places: Vec<_> = places.map(|(at, _)| at).collect();
    places.iter().for_each(|at| bytes[at + 9] = b'x');
    fs::write(&file, bytes).unwrap();
    let seq = events.iter().find(|event| event["type"] == "turn_completed").unwrap()["seq"].as_u64().unwrap();
    let (code, text) = check(&house);
    assert!(code == Some(1) && text.contains(&format!("{run}: event {seq} (turn_completed) cannot be read")), "{text}");
    house.start();
    let output = house.run(&["replay", &run]);
    let text = String::from_utf8(output.stdout.clone()).unwrap() + &told(&output).1;
    assert!(text.contains(&run) && text.contains(&format!("event {seq}")) && text.contains("backup"), "{text}");
}
