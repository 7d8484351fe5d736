//! Every limit of Baton, in one table: name, unit, default and what it bounds (contracts.md § 3).
//!
//! What bounds a person, a model, a client or a run stands here. What only tunes how one file works (the size of a read, a queue
//! between two threads) is a named constant beside its code.

use serde::{Deserialize, Serialize};

/// One row of the table, for `baton doctor` and the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LimitRow {
    /// The field's name, as it is configured.
    pub name: &'static str,
    /// The value in force.
    pub value: u64,
    /// What the value counts.
    pub unit: &'static str,
    /// What it bounds.
    pub what: &'static str,
}

macro_rules! limits {
    ($($name:ident = $default:expr, $unit:literal, $what:literal;)*) => {
        /// The limits in force. Unknown names are refused, so that a typing error in a configuration is seen.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Limits {
            $(#[doc = concat!($what, " Unit: ", $unit, ".")] pub $name: u64,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Limits {
            /// The table as rows.
            pub fn rows(&self) -> Vec<LimitRow> {
                vec![$(LimitRow { name: stringify!($name), value: self.$name, unit: $unit, what: $what },)*]
            }
        }
    };
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

limits! {
    active_runs_per_chat = 1, "runs", "Root runs of one chat that are queued, running or waiting (E1).";
    active_runs_per_user = 2, "runs", "Root runs of one user that are queued, running or waiting (E1).";
    active_runs_global = 200, "runs", "Root runs of this server that are queued, running or waiting (E1).";
    child_run_depth = 3, "runs", "Runs that start one another, the root not counted (E1).";
    message_bytes = 32 * KIB, "bytes", "Text of one message.";
    bundle_bytes = 32 * MIB, "bytes", "One exported run, and the log that a fork takes along.";
    bundle_events = 100_000, "events", "Events of one exported run.";
    upload_bytes = 16 * MIB, "bytes", "Body of one upload of files; a file in it is a third larger than it is.";
    body_bytes = MIB, "bytes", "JSON body of one request.";
    page_items = 100, "items", "Items of one page of a list.";
    turns_per_run = 12, "turns", "Questions to the model in one run (E14).";
    tools_per_turn = 12, "calls", "Tool calls of one turn (E14).";
    tools_per_run = 24, "calls", "Tool calls of one run (E14).";
    continuations_per_turn = 3, "calls", "How often an answer that reached the model's output limit is carried on within its turn.";
    nudges_per_run = 1, "nudges", "Reminders to a model that did nothing (E13).";
    fix_rounds = 3, "rounds", "Turns that mend a failed check or build, in a row.";
    loop_repeats = 3, "times", "The same call with the same result within the loop window, or the same error in a row: another approach is asked for, then the run stops.";
    loop_window = 8, "calls", "Latest tool calls that the loop detector looks at.";
    run_cost_cents = 0, "cents", "Money that one run may spend on models, by the catalogue's prices; 0: any (N6).";
    run_tokens = 0, "tokens", "Tokens that one run may use, prompts and answers together; 0: any (N6).";
    response_bytes = 4 * MIB, "bytes", "One response of a model (E14).";
    prompt_bytes = 2 * MIB, "bytes", "One prompt, before it is sent.";
    tool_result_bytes = 64 * KIB, "bytes", "One tool's result as the model sees it.";
    tool_payload_bytes = 512 * KIB, "bytes", "All results of one turn as the model sees them (E14).";
    model_operations = 20, "streams", "Models that are asked at once; further turns wait (L15).";
    model_connect_ms = 10_000, "ms", "Connecting to a model's server.";
    model_first_byte_ms = 120_000, "ms", "Waiting for the first byte of a remote model.";
    model_first_byte_local_ms = 600_000, "ms", "The same for a model on this machine or network, which may be loading.";
    model_idle_ms = 60_000, "ms", "Silence in the middle of a stream.";
    step_attempts = 3, "attempts", "Attempts of one step when the error may pass (D4).";
    step_recoveries = 10, "attempts", "Further attempts of one step after workers died in it, gave it back or had no room to write.";
    retry_base_ms = 500, "ms", "First delay between attempts; doubles, with full jitter.";
    retry_most_ms = 15_000, "ms", "Longest delay between attempts.";
    run_wall_ms = 30 * 60_000, "ms", "A run's whole time.";
    command_ms = 45_000, "ms", "One command in the sandbox.";
    command_args = 60, "arguments", "Arguments of one command.";
    command_arg_bytes = KIB, "bytes", "One argument of a command.";
    command_output_bytes = MIB, "bytes", "Output of one command that is kept: head and tail.";
    install_packages = 40, "packages", "Packages of one install.";
    build_ms = 180_000, "ms", "One build.";
    build_log_tail_bytes = 16 * KIB, "bytes", "End of a build's output that is kept in its error.";
    build_output_files = 2_000, "files", "Files of one build's output.";
    build_output_bytes = 100 * MIB, "bytes", "All files of one build's output.";
    instant_module_bytes = 256 * KIB, "bytes", "Largest file that an instant preview transforms (N7).";
    instant_modules = 500, "modules", "Modules of one instant page.";
    instant_cache_bytes = 64 * MIB, "bytes", "Transformed modules that are kept in memory for instant previews.";
    instant_drafts = 16, "projects", "Projects whose files are kept in memory for their instant previews.";
    preview_reports = 20, "reports", "What browsers say of instant pages that waits for a run's owner at once.";
    preview_exceptions = 20, "exceptions", "Exceptions of instant pages that become events of one run.";
    preview_report_bytes = 4 * KIB, "bytes", "The words of one such exception.";
    manifests_kept = 64, "manifests", "Manifests of published builds that are kept in memory, for their previews.";
    project_files = 2_000, "files", "Files of one project, dependencies not counted.";
    project_file_bytes = 4 * MIB, "bytes", "One file of a project.";
    project_bytes = 64 * MIB, "bytes", "All files of a project, dependencies not counted.";
    project_prompt_bytes = 256 * KIB, "bytes", "Project files that a prompt shows whole; the rest is listed by name.";
    history_prompt_bytes = 32 * KIB, "bytes", "Earlier messages that a prompt shows.";
    sandbox_memory_bytes = GIB, "bytes", "Memory of one sandbox.";
    sandbox_build_memory_bytes = 2 * GIB, "bytes", "Memory of one sandbox while it builds or installs.";
    sandbox_cpu_percent = 50, "percent of one core", "Processor time of one sandbox.";
    sandbox_build_cpu_percent = 200, "percent of one core", "Processor time of one sandbox while it builds or installs.";
    sandbox_pids = 512, "processes", "Processes and threads of one sandbox.";
    sandbox_file_bytes = 512 * MIB, "bytes", "One file that a process in the sandbox writes.";
    sandbox_disk_bytes = 2 * GIB, "bytes", "Disk of one sandbox.";
    sandbox_tmp_bytes = 256 * MIB, "bytes", "Private temporary folder of one sandbox.";
    lease_ms = 15_000, "ms", "A worker's claim on a run, unless renewed.";
    heartbeat_ms = 5_000, "ms", "How often a claim is renewed.";
    lease_margin_ms = 3_000, "ms", "How long before its claim ends a worker stops by its own clock.";
    poll_ms = 1_000, "ms", "How often a worker and a reader look by themselves when no wake-up comes.";
    run_claims = 1_000, "claims", "Times that workers take one run; then it fails, instead of being tried for ever.";
    runs_per_worker = 64, "runs", "Runs that one worker performs at once.";
    graph_steps = 1_000, "steps", "Steps of one graph (D2).";
    snapshot_events = 500, "events", "A snapshot of a run's state is stored after this many events at the soonest.";
    run_inbox = 256, "events", "Events from a run's effects that wait for the run's task.";
    merged_delta_bytes = 64 * KIB, "bytes", "One stored delta after merging.";
    commit_batch = 4_096, "events", "Events of one commit.";
    live_ring_bytes = 64 * KIB, "bytes", "Latest encoded events of a run that are kept in memory for its readers (D8).";
    read_page = 128, "events", "Events that a reader takes from the store at once.";
    reader_page_bytes = 64 * KIB, "bytes", "Encoded events that one reader takes from the store at once.";
    sse_heartbeat_ms = 15_000, "ms", "Comment lines on a quiet stream.";
    sse_streams = 64, "streams", "Streams of one multiplexed connection.";
    sse_write_ms = 30_000, "ms", "How long a reader may take nothing before it is cut.";
    session_code_ms = 60_000, "ms", "How long a printed link works, once.";
    session_ms = 30 * 24 * 3_600_000, "ms", "How long a browser stays signed in.";
    shutdown_ms = 10_000, "ms", "How long a stop waits for work in hand.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_limit_is_refused_and_a_partial_table_keeps_the_defaults() {
        assert!(serde_json::from_str::<Limits>(r#"{"turns_per_rum": 3}"#).is_err());
        let some: Limits = serde_json::from_str(r#"{"turns_per_run": 3}"#).unwrap();
        assert_eq!(some, Limits { turns_per_run: 3, ..Limits::default() });
    }
}
