//! The corpus: every kind of run that there is, as short as it can be. What it has not, no rehearsal can find.

use super::case::{Act, Case, Deed, During, Message, Strict};

const fn say(text: &'static [Message]) -> Act {
    Act::Say(text)
}

const fn message(text: &'static str) -> Message {
    Message::new(text)
}

const DONE: &str = "run_completed done";
const FILES: &str = include_str!("../../corpus/files.yaml");
const COMMANDS: &str = include_str!("../../corpus/commands.yaml");
const FAULTS: &str = include_str!("../../corpus/faults.yaml");
const BUDGETS: &str = include_str!("../../corpus/budgets.yaml");
const PAGES: &str = include_str!("../../corpus/pages.yaml");
const PEOPLE: &str = include_str!("../../corpus/people.yaml");

type Steps = [(&'static str, &'static str, &'static [&'static str])];

const CHAIN: &Steps =
    &[("a", "echo", &[]), ("b", "echo", &["a"]), ("c", "echo", &["b"]), ("d", "echo", &["c"]), ("e", "echo", &["d"])];
const DIAMOND: &Steps = &[
    ("top", "echo", &[]),
    ("left", "echo", &["top"]),
    ("right", "echo", &["top"]),
    ("end", "echo", &["left", "right"]),
];
const CIRCLE: &Steps = &[("a", "echo", &["c"]), ("b", "echo", &["a"]), ("c", "echo", &["b"])];
const UNKNOWN: &Steps = &[("a", "echo", &[]), ("b", "juggle", &["a"]), ("c", "echo", &["b"])];
const FAN: &Steps = &[
    ("in", "echo", &[]),
    ("1", "echo", &["in"]),
    ("2", "echo", &["in"]),
    ("3", "echo", &["in"]),
    ("4", "echo", &["in"]),
    ("5", "echo", &["in"]),
    ("6", "echo", &["in"]),
    ("7", "echo", &["in"]),
    ("8", "echo", &["in"]),
    ("9", "echo", &["in"]),
    ("10", "echo", &["in"]),
    ("11", "echo", &["in"]),
    ("12", "echo", &["in"]),
    ("13", "echo", &["in"]),
    ("14", "echo", &["in"]),
    ("15", "echo", &["in"]),
    ("16", "echo", &["in"]),
    ("17", "echo", &["in"]),
    ("18", "echo", &["in"]),
    ("19", "echo", &["in"]),
    ("20", "echo", &["in"]),
    (
        "out",
        "echo",
        &[
            "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19",
            "20",
        ],
    ),
];

/// Every case. Names of the earliest first, then by what they are about.
pub const CORPUS: &[Case] = &[
    Case::new("answer", include_str!("../../corpus/answer.yaml"), &[say(&[message("what is this?")])], &[DONE]),
    Case::new(
        "one_turn",
        include_str!("../../corpus/one_turn.yaml"),
        &[say(&[message("a page")]), say(&[message("make it dark")])],
        &[DONE, DONE],
    ),
    Case::new("mended", include_str!("../../corpus/mended.yaml"), &[say(&[message("an app")])], &[DONE]),
    Case::new("hard_luck", include_str!("../../corpus/hard_luck.yaml"), &[say(&[message("an app")])], &[DONE])
        .failing(2),
    Case::new("broken_off", include_str!("../../corpus/broken_off.yaml"), &[say(&[message("an app")])], &[DONE])
        .failing(1),
    Case::new(
        "never_builds",
        include_str!("../../corpus/never_builds.yaml"),
        &[say(&[message("an app")])],
        &["run_failed build_failed"],
    ),
    Case::new(
        "too_many_tools",
        include_str!("../../corpus/too_many_tools.yaml"),
        &[say(&[message("an app")])],
        &["run_completed turn_tool_budget_exceeded"],
    ),
    Case::new(
        "seen_at_once",
        include_str!("../../corpus/seen_at_once.yaml"),
        &[say(&[message("a list")]), say(&[message("make it dark")])],
        &[DONE, DONE],
    ),
    Case::new(
        "todo",
        include_str!("../../../../demo/todo.yaml"),
        &[say(&[message("a to-do list")]), say(&[message("make it dark")]), say(&[message("add a search box")])],
        &[DONE, DONE, DONE],
    ),
    // Files.
    Case::new("edits", FILES, &[say(&[message("numbers")]), say(&[message("edit them")])], &[DONE, DONE]),
    Case::new("moves", FILES, &[say(&[message("move things")])], &[DONE]),
    Case::new("collisions", FILES, &[say(&[message("collide")])], &[DONE]),
    Case::new("refused_paths", FILES, &[say(&[message("go outside")])], &[DONE]),
    // Commands and installs.
    Case::new("commands", COMMANDS, &[say(&[message("all commands")])], &[DONE]),
    Case::new("twice_on_purpose", COMMANDS, &[say(&[message("twice")])], &[DONE]).strict(Strict::UnlessTold),
    Case::new("too_slow", COMMANDS, &[say(&[message("too slow")])], &[DONE]),
    Case::new("installs", COMMANDS, &[say(&[message("installs")])], &[DONE]),
    Case::new("not_set_up", COMMANDS, &[say(&[message("the web")])], &[DONE]),
    // The model.
    Case::new("cut_off", FAULTS, &[say(&[message("cut off")])], &[DONE]),
    Case::new("rate_limited", FAULTS, &[say(&[message("rate limited")])], &[DONE]).failing(1),
    Case::new("overloaded", FAULTS, &[say(&[message("overloaded")])], &["run_failed model_overloaded"]).failing(3),
    Case::new(
        "tried_again",
        FAULTS,
        &[say(&[message("struggle")]), Act::Retry(0)],
        &["run_failed model_overloaded|run_completed done", DONE],
    )
    .failing(3)
    .strict(Strict::Ends),
    Case::new("no_key", FAULTS, &[say(&[message("no key")])], &["run_failed model_auth"]),
    Case::new("filtered", FAULTS, &[say(&[message("filtered")])], &["run_failed model_content_filtered"]),
    Case::new("silent", FAULTS, &[say(&[message("silent")])], &[DONE]).failing(1),
    Case::new("garbled", FAULTS, &[say(&[message("garbled")])], &[DONE]).failing(1),
    Case::new("idles", FAULTS, &[say(&[message("idle on")])], &["run_completed no_tool_results"]),
    Case::new("empty", FAULTS, &[say(&[message("empty")])], &[DONE]),
    // Budgets.
    Case::new("all_turns", BUDGETS, &[say(&[message("turn by turn")])], &["run_completed max_turns_reached"])
        .under(|limits| limits.turns_per_run = 3),
    Case::new("all_tools", BUDGETS, &[say(&[message("tool by tool")])], &["run_completed run_tool_budget_exceeded"])
        .under(|limits| limits.tools_per_run = 4),
    Case::new("just_enough_tools", BUDGETS, &[say(&[message("just enough")])], &[DONE])
        .under(|limits| limits.tools_per_run = 4),
    Case::new("too_long", BUDGETS, &[say(&[message("too long")])], &["run_completed max_turns_reached"])
        .under(|limits| (limits.response_bytes, limits.turns_per_run) = (400, 2)),
    Case::new("in_circles", BUDGETS, &[say(&[message("in circles")])], &["run_completed loop_detected"]),
    Case::new("too_large", BUDGETS, &[say(&[message("too large")])], &["run_completed context_limit_exceeded"])
        .under(|limits| limits.prompt_bytes = 1_000),
    Case::new(
        "out_of_time",
        BUDGETS,
        &[say(&[message("out of time")])],
        &["run_completed timed_out|run_completed done"],
    )
    .under(|limits| limits.run_wall_ms = 20_000),
    // What a page shows.
    Case::new("slips", PAGES, &[say(&[message("slips")])], &[DONE]),
    Case::new(
        "blank",
        PAGES,
        &[say(&[message("blank").during(&[During {
            kind: "preview_url",
            holds: "instant",
            deed: Deed::Blank("root is null"),
        }])])],
        &[DONE],
    )
    .strict(Strict::Ends),
    Case::new(
        "throws",
        PAGES,
        &[say(&[message("throws").during(&[During {
            kind: "preview_url",
            holds: "instant",
            deed: Deed::Exception("x is not a function"),
        }])])],
        &[DONE],
    ),
    Case::new(
        "by_hand",
        PAGES,
        &[
            say(&[message("by hand")]),
            Act::Change(&[("src/App.tsx", Some("export const by = 'hand';\n")), ("src/more.ts", Some("export {};\n"))]),
            Act::Change(&[("src/App.tsx", Some("// BREAK THE BUILD\n")), ("src/more.ts", None)]),
            Act::Restore(0),
            Act::Change(&[("src/App.tsx", Some("export const by = 'hand';\n"))]),
            say(&[message("go on")]),
        ],
        &[DONE, DONE, "run_failed build_failed", DONE, DONE, DONE],
    ),
    // What people do.
    Case::new(
        "after_a_failure",
        PEOPLE,
        &[say(&[message("break it")]), say(&[message("mend it")])],
        &["run_failed build_failed", DONE],
    ),
    Case::new(
        "long_talk",
        PEOPLE,
        &[say(&[message("one")]), say(&[message("two")]), say(&[message("is it three?")]), say(&[message("four")])],
        &[DONE, DONE, DONE, DONE],
    ),
    Case::new(
        "stopped_while_writing",
        PEOPLE,
        &[
            say(&[message("write slowly").during(&[During { kind: "file_delta", holds: "", deed: Deed::Stop }])]),
            say(&[message("one")]),
        ],
        &["run_cancelled|run_completed done", DONE],
    )
    .strict(Strict::Ends),
    Case::new(
        "stopped_while_running",
        PEOPLE,
        &[say(&[message("sleep on").during(&[During { kind: "tool_started", holds: "", deed: Deed::Stop }])])],
        &["run_cancelled|run_completed done"],
    )
    .strict(Strict::Ends),
    Case::new(
        "stopped_while_building",
        PEOPLE,
        &[say(&[message("one").during(&[During { kind: "build_status", holds: "", deed: Deed::Stop }])])],
        &["run_cancelled|run_completed done"],
    )
    .strict(Strict::Ends),
    Case::new("queue", PEOPLE, &[say(&[message("one"), message("two"), message("four")])], &[DONE, DONE, DONE])
        .under(|limits| (limits.active_runs_per_chat, limits.active_runs_per_user) = (3, 9)),
    Case::new(
        "stopped_in_the_queue",
        PEOPLE,
        &[say(&[
            message("write slowly").during(&[During { kind: "text_delta", holds: "", deed: Deed::StopOther(1) }]),
            message("two"),
        ])],
        &[DONE, "run_cancelled|run_completed done"],
    )
    .under(|limits| (limits.active_runs_per_chat, limits.active_runs_per_user) = (3, 9))
    .strict(Strict::Ends),
    Case::new(
        "side_by_side",
        PEOPLE,
        &[say(&[message("one").apart(), message("write slowly").apart(), message("run something").apart()])],
        &[DONE, DONE, DONE],
    )
    .under(|limits| limits.active_runs_per_user = 9),
    // Graphs.
    Case::new("chain", PEOPLE, &[Act::Graph(CHAIN)], &[DONE]),
    Case::new("fan", PEOPLE, &[Act::Graph(FAN)], &[DONE]),
    Case::new("diamond", PEOPLE, &[Act::Graph(DIAMOND)], &[DONE]),
    Case::new("unknown_skill", PEOPLE, &[Act::Graph(UNKNOWN)], &["run_failed unknown_skill"]),
    Case::new("circle", PEOPLE, &[Act::Graph(CIRCLE)], &["run_failed bad_graph"]),
    // Runs of runs.
    Case::new(
        "child",
        PEOPLE,
        &[say(&[message("sleep on").during(&[During { kind: "tool_started", holds: "", deed: Deed::Start("one") }])])],
        &[DONE, "run_completed done|run_cancelled|-"],
    )
    .strict(Strict::Ends),
    Case::new(
        "child_graph",
        PEOPLE,
        &[say(&[message("sleep on").during(&[During {
            kind: "tool_started",
            holds: "",
            deed: Deed::StartGraph(CHAIN),
        }])])],
        &[DONE, "run_completed done|run_cancelled|-"],
    )
    .strict(Strict::Ends),
    Case::new(
        "stopped_with_its_child",
        PEOPLE,
        &[say(&[message("sleep on").during(&[
            During { kind: "tool_started", holds: "", deed: Deed::Start("write slowly") },
            During { kind: "tool_started", holds: "", deed: Deed::Stop },
        ])])],
        &["run_cancelled|run_completed done", "run_cancelled|run_completed done|-"],
    )
    .strict(Strict::Ends),
    Case::new(
        "fork",
        COMMANDS,
        &[say(&[message("fork me")]), Act::Fork(0, "turn-2")],
        &["run_completed done|run_completed loop_detected", DONE],
    ),
];
