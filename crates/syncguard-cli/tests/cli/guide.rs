//! Runs the examples of the guide's page "From the shell".

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::{install, tools, wait};
use yaml_rust2::{Yaml, YamlLoader};

use crate::harness::{Finished, Harness, LONG, until_gone};
use crate::processes::{children, name};

pub(crate) fn shown(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../syncguard/src/guide/shell").join(name)
}

/// Where the guide's crontabs and unit have the command: their `PATH` is short.
const INSTALLED: &str = "/usr/local/bin/syncguard";

/// A text of the guide with the path of the command here.
fn here(line: &str) -> String {
    line.replace(INSTALLED, env!("CARGO_BIN_EXE_syncguard"))
}

/// The folder of the command, for `PATH`.
pub(crate) fn bin() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_syncguard")).parent().map(PathBuf::from).unwrap_or_default()
}

/// A write under the lock's fence succeeds, and a write under an older fence is refused.
fn refuses_an_old_fence(
    script: &str,
    database: &str,
    balance: impl Fn() -> Result<String>,
) -> Result<()> {
    let harness = Harness::file()?;
    let script = shown(script).display().to_string();
    harness.run(&["run", "account:7", "--", "sh", &script, database])?.expect(0)?;
    ensure!(balance()? == "95");
    harness.run(&["run", "account:7", "--", "sh", &script, database])?.expect(0)?;
    ensure!(balance()? == "90");
    // The first holder wakes up late.
    let mut late = Command::new("sh");
    late.arg(&script).arg(database).env("SYNCGUARD_FENCE", "000000000000001");
    let output = late.output()?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    ensure!(
        String::from_utf8_lossy(&output.stderr).contains("a later holder was here"),
        "{output:?}"
    );
    ensure!(balance()? == "90");
    Ok(())
}

#[test]
fn a_fenced_write_with_sqlite3() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("app.db").display().to_string();
    let program = install::require(&tools::SQLITE3)?;
    let sqlite = |sql: &str| -> Result<String> {
        let output = Command::new(&program).arg(&database).arg(sql).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    sqlite(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER NOT NULL DEFAULT 0)",
    )?;
    sqlite("INSERT INTO account (id, balance) VALUES (7, 100)")?;
    refuses_an_old_fence("fenced_sqlite.sh", &database, || sqlite("SELECT balance FROM account"))
}

#[test]
fn a_fenced_write_with_psql() -> Result<()> {
    let server = PostgresServer::start()?;
    server.psql("CREATE TABLE account (id bigint PRIMARY KEY, balance bigint, fence bigint NOT NULL DEFAULT 0)")?;
    server.psql("INSERT INTO account (id, balance) VALUES (7, 100)")?;
    refuses_an_old_fence("fenced_psql.sh", &server.url(), || {
        Ok(server.psql("SELECT balance FROM account")?.trim().to_owned())
    })
}

/// systemd finds nothing wrong with the unit.
#[test]
fn the_unit_is_sound() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let unit = fs::read_to_string(shown("nightly.service"))?;
    let unit = here(&unit);
    let path = folder.path().join("nightly.service");
    fs::write(&path, &unit)?;
    let program = install::require(&tools::SYSTEMD_ANALYZE)?;
    let output = Command::new(program).arg("verify").arg(&path).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let about_it: Vec<&str> = said.lines().filter(|line| line.contains("nightly")).collect();
    ensure!(output.status.success() && about_it.is_empty(), "{said}");

    // The unit's command works, too.
    let start =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).context("a command")?;
    let harness = Harness::file()?;
    let run = |expected: i32| -> Result<()> {
        let mut words = start.split(' ');
        let mut command = Command::new(words.next().context("a program")?);
        command.args(words).env_clear().env("SYNCGUARD_STORE", &harness.url);
        let output = command.output()?;
        ensure!(output.status.code() == Some(expected), "{output:?}");
        Ok(())
    };
    run(0)?;
    // The lock is kept for a while: another machine's clock may be late.
    run(75)
}

/// Runs the lines as cron does: with `/bin/sh`, and almost no environment. Each prints once for its tick.
#[test]
fn the_lines_of_cron_work() -> Result<()> {
    let (harness, folder) = (Harness::file()?, tempfile::tempdir()?);
    let store = folder.path().join("store");
    fs::write(&store, &harness.url)?;
    let page = fs::read_to_string(shown("../ticks.md"))?;
    ensure!(page.contains(&fs::read_to_string(shown("tick.cron"))?), "the page shows it");
    // A tick that is due at any time of the day.
    let always_due = ("--tz", "--max-lateness 25h --tz");
    for (name, (old, new)) in [("nightly.cron", ("", "")), ("tick.cron", always_due)] {
        let crontab = fs::read_to_string(shown(name))?;
        let (setting, line) = crontab.trim_end().split_once('\n').context("two lines")?;
        ensure!(setting == "SYNCGUARD_STORE_FILE=/etc/syncguard/store", "{crontab}");
        let line = line.splitn(6, ' ').nth(5).context("a command")?;
        ensure!(!line.contains(['%', '\n']), "{line}");
        let line = here(line).replacen(old, new, 1);
        for printed in ["report\n", ""] {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &line]).env_clear().env("SYNCGUARD_STORE_FILE", &store);
            shell.env("HOME", "/").env("PATH", "/usr/bin:/bin");
            let done = Finished::of(&shell.output()?).expect(0)?;
            // Cron would mail anything on standard error.
            ensure!(done.stdout == printed && done.stderr.is_empty(), "{name}: {done:?}");
        }
    }
    Ok(())
}

fn yaml(name: &str) -> Result<Yaml> {
    let mut documents = YamlLoader::load_from_str(&fs::read_to_string(shown(name))?)?;
    ensure!(documents.len() == 1, "{name}");
    documents.pop().context("a document")
}

/// Runs an example of the guide, in a folder with the script that it names.
fn runs_the_script(mut command: Command, script: &str, key: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let (harness, folder) = (Harness::file()?, tempfile::tempdir()?);
    let script = folder.path().join(script);
    fs::write(&script, "#!/bin/sh\necho \"$SYNCGUARD_KEY\"\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    command.current_dir(folder.path()).env("SYNCGUARD_STORE", &harness.url);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin().display()));
    let output = command.output()?;
    ensure!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    ensure!(output.stdout == format!("{key}\n").as_bytes(), "{output:?}");
    Ok(())
}

#[test]
fn the_step_of_github_actions_works() -> Result<()> {
    let workflow = yaml("deploy.yml")?;
    let steps = workflow["jobs"]["deploy"]["steps"].as_vec().context("steps")?;
    let runs: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
    let [install, deploy] = runs[..] else { anyhow::bail!("{runs:?}") };
    // The features that it names exist.
    let manifest = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))?;
    let features = install.split_once("--features ").context("features")?.1;
    for feature in features.split(',') {
        ensure!(manifest.contains(&format!("\n{feature} = [")), "{feature}");
    }
    ensure!(install.starts_with("cargo install syncguard-cli --locked --no-default-features "));
    let step = steps.last().context("a step")?;
    ensure!(step["env"]["SYNCGUARD_STORE"].as_str() == Some("${{ secrets.SYNCGUARD_STORE }}"));
    // As a runner of GitHub executes a step.
    let mut command = Command::new("bash");
    command.args(["-e", "-c", deploy]);
    runs_the_script(command, "deploy.sh", "deploy:production")
}

#[test]
fn the_job_of_kubernetes_works() -> Result<()> {
    let job = yaml("cronjob.yaml")?;
    ensure!(
        job["apiVersion"].as_str() == Some("batch/v1") && job["kind"].as_str() == Some("CronJob")
    );
    let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    ensure!(pod["restartPolicy"].as_str() == Some("Never"));
    ensure!(pod["terminationGracePeriodSeconds"].as_i64().is_some());
    let container = &pod["containers"][0];
    ensure!(container["env"][0]["name"].as_str() == Some("SYNCGUARD_STORE"));
    let words = container["command"].as_vec().context("a command")?.iter().map(Yaml::as_str);
    let words: Vec<&str> = words.collect::<Option<_>>().context("texts")?;
    // `env` looks in the `PATH` that is set below; this test's own `PATH` lacks the command.
    let mut command = Command::new("env");
    command.args(&words);
    runs_the_script(command, "report.sh", "nightly-report")
}

fn prepared(harness: &Harness, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.arg(shown(name)).args(arguments).env("SYNCGUARD_STORE", &harness.url);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin().display()));
    command
}

fn script(harness: &Harness, name: &str, arguments: &[&str]) -> Result<Finished> {
    Ok(Finished::of(&prepared(harness, name, arguments).output()?))
}

/// SIGTERM, as of a job that is cancelled, ends the step with all its processes, and gives the lock back.
pub(crate) fn gives_back_at_a_signal(
    harness: &Harness,
    key: &str,
    with_steps: impl Fn(&[&str]) -> Command,
) -> Result<()> {
    let step = "sleep 1000 & echo $!; wait; echo more";
    let mut running = Harness::spawn(with_steps(&[step, "echo more"]))?;
    let sleeper = running.numbers()?;
    running.signal(Signal::TERM)?;
    let done = running.ended()?.expect(143)?;
    ensure!(!done.stdout.contains("more"), "{done:?}");
    until_gone(&sleeper)?;
    ensure!(harness.is_free(key)?);
    Ok(())
}

#[test]
fn the_agent_holds_its_lock_during_all_steps() -> Result<()> {
    let harness = Harness::file()?;
    let look = "syncguard status repo:main --json";
    let done = script(&harness, "agent.sh", &[look, look])?.expect(0)?;
    let shown: Vec<&str> = done.stdout.lines().collect();
    ensure!(shown.len() == 3 && shown[2] == "released" && done.stderr.is_empty(), "{done:?}");
    for line in &shown[..2] {
        ensure!(line.contains("\"holder\":\"agent-7\"") && line.contains("ticket 4711"), "{line}");
    }
    ensure!(harness.is_free("repo:main")?);
    // A step that fails ends the work, and the lock is free.
    let done = script(&harness, "agent.sh", &["exit 3", "echo more"])?.expect(3)?;
    ensure!(done.stdout == "released\n" && harness.is_free("repo:main")?, "{done:?}");
    // No step runs without the lock.
    let lose = "syncguard release repo:main --force >&2";
    let done = script(&harness, "agent.sh", &[lose, "echo more"])?.expect(76)?;
    ensure!(!done.stdout.contains("more"), "{done:?}");
    let harness = Harness::file()?;
    gives_back_at_a_signal(&harness, "repo:main", |steps| prepared(&harness, "agent.sh", steps))?;
    // A signal while the agent waits ends the waiter.
    let holder = harness.holder("repo:main", &[])?;
    let agent = Harness::spawn(prepared(&harness, "agent.sh", &["echo more"]))?;
    let agents = agent.pid()?;
    let mut waiters = Vec::new();
    wait::until("a waiter", LONG, || {
        waiters = children(agents).into_iter().filter(|pid| name(*pid).0 == "syncguard").collect();
        Ok(!waiters.is_empty())
    })?;
    agent.signal(Signal::TERM)?;
    agent.ended()?.expect(143)?;
    until_gone(&waiters)?;
    holder.end()?.expect(0).map(drop)
}

#[test]
fn the_session_holds_its_lock_until_its_end() -> Result<()> {
    let harness = Harness::file()?;
    let done = script(&harness, "session.sh", &[])?.expect(0)?;
    ensure!(done.stdout == "released\n" && done.stderr.is_empty(), "{done:?}");
    let holder = harness.holder("db:replica", &[])?;
    script(&harness, "session.sh", &[])?.expect(75)?;
    holder.end()?.expect(0)?;
    // An extend that fails leaves the record, and the end of the shell gives the lock back.
    let text = fs::read_to_string(shown("session.sh"))?;
    let line = text.replace("syncguard extend", "syncguard --store x: extend");
    ensure!(line != text);
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("session.sh").display().to_string();
    fs::write(&copy, line)?;
    let done = script(&harness, &copy, &[])?.expect(64)?;
    ensure!(done.stdout == "released\n" && harness.is_free("db:replica")?, "{done:?}");
    Ok(())
}

#[test]
fn the_steps_of_github_actions_share_a_lock() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let (harness, folder) = (Harness::file()?, tempfile::tempdir()?);
    for name in ["migrate.sh", "deploy.sh"] {
        let path = folder.path().join(name);
        fs::write(&path, "#!/bin/sh\nsyncguard status deploy:production --json\n")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let workflow = yaml("steps.yml")?;
    let steps = workflow["jobs"]["deploy"]["steps"].as_vec().context("steps")?;
    let runs: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
    let run = |line: &str| -> Result<String> {
        let mut command = Command::new("bash");
        // As GitHub runs a step.
        command.args(["-e", "-c", line]).current_dir(folder.path());
        command.env("SYNCGUARD_STORE", &harness.url).env("RUNNER_TEMP", folder.path());
        command.env("SYNCGUARD_NOTE", "run 4711");
        command.env("PATH", format!("{}:/usr/bin:/bin", bin().display()));
        Ok(Finished::of(&command.output()?).expect(0)?.stdout)
    };
    ensure!(runs.len() == 5 && runs[0].starts_with("cargo install "), "{runs:?}");
    for (line, says) in runs[1..].iter().zip(["", "\"note\":\"run 4711\"", "run 4711", "released"])
    {
        let said = run(line)?;
        ensure!(said.contains(says), "{line}: {said}");
    }
    ensure!(harness.is_free("deploy:production")?);
    // The last step runs after a failure of the first, too.
    run(runs[4]).map(drop)
}

/// Each shell can load its completions.
#[test]
fn completions_can_be_read() -> Result<()> {
    let (harness, folder) = (Harness::file()?, tempfile::tempdir()?);
    let bash = "source syncguard.bash && complete -p syncguard";
    let zsh =
        "autoload -U compinit && compinit -uD && source ./_syncguard && print $_comps[syncguard]";
    let fish = "source syncguard.fish; complete -C 'syncguard copy-f'";
    for (name, file, shell, options, script, says) in [
        ("bash", "syncguard.bash", PathBuf::from("bash"), "--norc", bash, "-F _syncguard"),
        ("zsh", "_syncguard", install::require(&tools::ZSH)?, "-f", zsh, "_syncguard"),
        (
            "fish",
            "syncguard.fish",
            install::require(&tools::FISH)?,
            "--no-config",
            fish,
            "copy-fences",
        ),
    ] {
        fs::write(folder.path().join(file), harness.run(&["completions", name])?.stdout)?;
        let mut command = Command::new(shell);
        let output = command.args([options, "-c", script]).current_dir(&folder).output()?;
        ensure!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        ensure!(String::from_utf8_lossy(&output.stdout).contains(says), "{output:?}");
    }
    Ok(())
}
