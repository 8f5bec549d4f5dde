//! `syncguard completions` and `syncguard man`: the files that a package or a user installs.

use std::io::stdout;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Failure, Status};

#[derive(Args)]
pub(crate) struct Options {
    shell: Shell,
}

pub(crate) fn completions(options: &Options) -> Result<Status, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "syncguard", &mut text);
    write(&text)
}

#[derive(Args)]
pub(crate) struct ManOptions {
    /// The subcommand to describe [default: the program itself]
    subcommand: Option<String>,
}

pub(crate) fn man(options: &ManOptions) -> Result<Status, Failure> {
    let mut command = Cli::command();
    command.build();
    if let Some(name) = &options.subcommand {
        let found = command.find_subcommand(name).cloned();
        command = found.ok_or_else(|| Failure::usage("there is no such subcommand"))?;
    }
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut text);
    rendered.map_err(|error| Failure::system("the man page cannot be made", &error))?;
    write(&text)
}

fn write(text: &[u8]) -> Result<Status, Failure> {
    use std::io::Write as _;

    let written = stdout().lock().write_all(text);
    written.map_err(|error| Failure::system("the output cannot be written", &error))?;
    Ok(Status::SUCCESS)
}
