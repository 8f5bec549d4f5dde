//! `syncguard completions` and `syncguard man`: for whoever packages the program.

use std::io::{self, stdout};

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

/// The page of the program, and of each subcommand after it.
pub(crate) fn man() -> Result<Status, Failure> {
    let mut text = Vec::new();
    let rendered = render(&mut text);
    rendered.map_err(|error| Failure::system("the man page cannot be made", &error))?;
    write(&text)
}

fn render(text: &mut Vec<u8>) -> io::Result<()> {
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(text)?;
    Ok(())
}

fn write(text: &[u8]) -> Result<Status, Failure> {
    use std::io::Write as _;

    let written = stdout().lock().write_all(text);
    written.map_err(|error| Failure::system("the output cannot be written", &error))?;
    Ok(Status::SUCCESS)
}
