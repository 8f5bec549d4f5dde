//! `syncguard`: run a job under a distributed lock, and look after locks from a shell.
//!
//! `syncguard --help` says what it does; the page "From the shell" of the guide in the `syncguard` crate says
//! how to use it.

// The other crates build with an older Rust, which has no such units; all are to read alike.
#![allow(clippy::duration_suboptimal_units, reason = "as in the other crates")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(not(unix))]
compile_error!(
    "the command `syncguard` hands on process groups and signals, and so needs a Unix system"
);

mod args;
mod commands;
mod exit;
#[cfg(feature = "log")]
mod log;
mod output;
mod run;
mod signals;
mod store;
mod table;
mod time;
mod unseen;
mod words;

use std::env;
use std::process::ExitCode;

use clap::Parser as _;

use self::args::{Cli, Command};
use self::exit::{Failure, Status};
use self::output::Output;
use self::store::Store;

fn main() -> ExitCode {
    // Two short programs of our own that `run` starts beside the command.
    let mut arguments = env::args_os().skip(1);
    match arguments.next().as_ref().and_then(|first| first.to_str()) {
        Some(run::launch::NAME) => return run::launch::main(arguments),
        Some(run::keeper::NAME) => return run::keeper::main(arguments),
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let wanted = !error.use_stderr();
            // Nobody is left to tell if it cannot be printed.
            let _ = error.print();
            return if wanted { ExitCode::SUCCESS } else { Status::USAGE.into() };
        }
    };
    #[cfg(feature = "log")]
    log::show(cli.common.verbose);
    let output = Output::new(cli.common.quiet);
    match enter(cli, output) {
        Ok(status) => status.into(),
        Err(failure) => {
            output.error(&failure);
            failure.status().into()
        }
    }
}

fn enter(cli: Cli, output: Output) -> Result<Status, Failure> {
    expect_files().map_err(|error| Failure::system("too few files can be open", &error))?;
    // One thread: the command is started from the thread that lives as long as this process does, since its
    // end is what the command's parent-death signal follows.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("the runtime does not start", &error))?;
    let ended = runtime.block_on(dispatch(cli, output));
    // What is still being looked up or read must not hold the end up.
    runtime.shutdown_background();
    ended
}

/// The runtime panics if it cannot open the few files that it needs, so they are tried first.
fn expect_files() -> std::io::Result<()> {
    const NEEDED: usize = 8;
    (0..NEEDED).map(|_| std::fs::File::open("/dev/null")).collect::<Result<Vec<_>, _>>().map(drop)
}

async fn dispatch(cli: Cli, output: Output) -> Result<Status, Failure> {
    let store = || Store::find(&cli.common, output);
    match cli.command {
        Command::Run(options) => run::run(&options, &store()?, output).await,
        Command::Status(options) => commands::status::run(&options, &store()?).await,
        Command::Release(options) => commands::release::run(&options, &store()?, output).await,
        Command::Ls(options) => commands::ls::run(&options, &store()?, output).await,
        Command::Watch(options) => commands::watch::run(&options, &store()?).await,
        Command::Fence(options) => commands::fence::run(&options, &store()?).await,
        Command::CopyFences(options) => {
            cli.common.expect_no_store("copy-fences takes --from and --to")?;
            commands::copy_fences::run(&options, output).await
        }
        Command::Doctor(options) => {
            let store = match &options.url {
                Some(url) => {
                    cli.common.expect_no_store("the store is the URL behind doctor")?;
                    Store::given(url, "the argument", output)?
                }
                None => store()?,
            };
            commands::doctor::run(&options, &store).await
        }
        #[cfg(feature = "generate")]
        Command::Completions(options) => commands::generate::completions(&options),
        #[cfg(feature = "generate")]
        Command::Man(options) => commands::generate::man(&options),
    }
}
