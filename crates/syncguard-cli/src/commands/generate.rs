//! `syncguard completions` and `syncguard man`: the files that a package or a user installs.

use std::io::{Write as _, stdout};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::{Failure, Status};

/// Prints the completions for a shell
///
/// To install them for this user:
///
/// bash: `syncguard completions bash > ~/.local/share/bash-completion/completions/syncguard`
///
/// zsh: `syncguard completions zsh > ~/.zfunc/_syncguard`, with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
///
/// fish: `syncguard completions fish > ~/.config/fish/completions/syncguard.fish`
#[derive(Args)]
pub(crate) struct CompletionsOptions {
    /// The shell
    shell: Shell,
}

pub(crate) fn completions(
    options: &CompletionsOptions,
    mut command: Command,
) -> Result<Status, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut command, "syncguard", &mut text);
    write(&text)
}

/// Prints the man page of the program or of a subcommand
///
/// To read one: `syncguard man run | man -l -`
///
/// To install one for this user: `syncguard man run > ~/.local/share/man/man1/syncguard-run.1`
#[derive(Args)]
pub(crate) struct ManOptions {
    /// The subcommand to describe [default: the program itself]
    subcommand: Option<String>,
}

pub(crate) fn man(options: &ManOptions, mut command: Command) -> Result<Status, Failure> {
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
    stdout().lock().write_all(text).map_err(Failure::output)?;
    Ok(Status::SUCCESS)
}
