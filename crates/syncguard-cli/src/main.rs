//! `syncguard`: run a job under a distributed lock, and look after locks from a shell.
//!
//! `syncguard --help` says what it does; the page "From the shell" of the guide in the `syncguard` crate says
//! how to use it.

// The other crates support an older Rust without these units, and all crates are written alike.
#![allow(clippy::duration_suboptimal_units, reason = "as in the other crates")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(not(unix))]
compile_error!(
    "the command `syncguard` hands on process groups and signals, and so needs a Unix system"
);

mod args;
mod caller;
mod commands;
mod escape;
mod exit;
mod global_options;
mod holder;
mod lock_options;
#[cfg(feature = "log")]
mod log;
mod messages;
mod output;
mod part_key;
mod run;
mod shell_messages;
mod signals;
mod store;
mod table;
mod time;

use std::env;
use std::process::ExitCode;

#[cfg(feature = "generate")]
use clap::CommandFactory as _;
use clap::Parser as _;

use self::args::{Cli, Command};
use self::exit::{Failure, Status};
use self::output::Output;
use self::store::Store;

fn main() -> ExitCode {
    // Two helper programs that `run` starts beside the command.
    let mut arguments = env::args_os().skip(1);
    match arguments.next().as_ref().and_then(|first| first.to_str()) {
        Some(run::launch::NAME) => return run::launch::main(arguments),
        Some(run::watchdog::NAME) => return run::watchdog::main(arguments),
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let wanted = !error.use_stderr();
            if is_shell_line(&error) {
                let says = "-c is no option: a shell runs a line, as in `syncguard run KEY -- sh -c 'LINE'`";
                Output::new(false).error(says);
                messages::finish();
                return Status::USAGE.into();
            }
            // If printing fails, the failure cannot be reported either.
            let _ = error.print();
            return if wanted { ExitCode::SUCCESS } else { Status::USAGE.into() };
        }
    };
    if matches!(cli.command, Command::Run(_)) && is_key_missing() {
        let says = "the key stands before `--`: syncguard run KEY -- COMMAND; a key that begins with a dash stands \
                    between two: syncguard run -- KEY -- COMMAND";
        Output::new(false).error(says);
        messages::finish();
        return Status::USAGE.into();
    }
    #[cfg(feature = "log")]
    log::init(&cli);
    let output = Output::new(cli.global.quiet);
    let status = start(cli, output).unwrap_or_else(|failure| {
        if !failure.is_silent() {
            output.error(&failure);
        }
        failure.status()
    });
    messages::finish();
    status.into()
}

/// Returns whether the user wrote `syncguard run -c LINE`, as for `flock`.
fn is_shell_line(error: &clap::Error) -> bool {
    use clap::error::{ContextKind, ContextValue};

    let is_run = env::args_os().any(|argument| argument == "run");
    let unknown = error.get(ContextKind::InvalidArg);
    is_run && matches!(unknown, Some(ContextValue::String(option)) if option == "-c")
}

/// Returns whether nothing before the first `--` is a key: the user has forgotten it, and the program of the command would
/// count as the key.
fn is_key_missing() -> bool {
    use clap::error::{ContextKind, ContextValue};

    let mut behind = env::args_os().skip_while(|argument| argument != "--");
    // A key between two of them is no program.
    if behind.next().is_none() || behind.nth(1).is_some_and(|argument| argument == "--") {
        return false;
    }
    let before = Cli::try_parse_from(env::args_os().take_while(|argument| argument != "--"));
    let error = before.err();
    let missing = error.as_ref().and_then(|error| error.get(ContextKind::InvalidArg));
    matches!(missing, Some(ContextValue::Strings(names)) if names.iter().any(|name| name == "<KEY>"))
}

fn start(cli: Cli, output: Output) -> Result<Status, Failure> {
    expect_files().map_err(|error| Failure::system("too few files can be open", &error))?;
    // One thread: the parent-death signal of the command follows the end of the thread that started
    // it, so that thread has to live as long as this process.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("the runtime does not start", &error))?;
    let ended = runtime.block_on(dispatch(cli, output));
    // A pending DNS query or read must not delay the end.
    runtime.shutdown_background();
    ended
}

/// The runtime panics if it cannot open the few files that it needs, so this function tries first.
fn expect_files() -> std::io::Result<()> {
    const NEEDED: usize = 8;
    (0..NEEDED).map(|_| std::fs::File::open("/dev/null")).collect::<Result<Vec<_>, _>>().map(drop)
}

async fn dispatch(cli: Cli, output: Output) -> Result<Status, Failure> {
    let access = cli.command.access();
    let store = || Store::find(&cli.global, access, output);
    match cli.command {
        Command::Run(options) => run::run(&options, store()?, output).await,
        Command::Acquire(options) => commands::acquire::run(&options, store()?, output).await,
        Command::Extend(options) => commands::extend::run(&options, &store()?).await,
        #[cfg(feature = "ticks")]
        Command::Tick(options) => commands::tick::run(&options, &store()?).await,
        Command::Status(options) => commands::status::run(&options, &store()?).await,
        Command::Release(options) => commands::release::run(&options, &store()?, output).await,
        Command::Ls(options) => commands::ls::run(&options, &store()?, output).await,
        Command::Watch(options) => commands::watch::run(&options, &store()?).await,
        Command::Export(options) => commands::export::run(&options, &store()?, output).await,
        Command::Fence(options) => commands::fence::run(&options, &store()?).await,
        Command::CopyFences(options) => {
            cli.global.expect_no_store("copy-fences takes --from and --to")?;
            commands::copy_fences::run(&options, output).await
        }
        Command::Setup(options) => commands::setup::run(&options, store()?).await,
        Command::Doctor(options) => {
            let store = match &options.url {
                Some(url) => {
                    cli.global.expect_no_store("the store is the URL behind doctor")?;
                    Store::from_argument(url, "the argument", output)?
                }
                None => store()?,
            };
            commands::doctor::run(&options, &store).await
        }
        #[cfg(feature = "generate")]
        Command::Completions(options) => commands::generate::completions(&options, Cli::command()),
        #[cfg(feature = "generate")]
        Command::Man(options) => commands::generate::man(&options, Cli::command()),
    }
}
