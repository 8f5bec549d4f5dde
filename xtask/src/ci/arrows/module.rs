//! A module as the check of imports sees it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree};

/// A path from the crate's root, without `crate`.
pub(super) type CratePath = Vec<String>;

#[derive(Default)]
pub(super) struct Module {
    pub(super) file: PathBuf,
    /// The names that the `use` items bring into scope, with their paths.
    pub(super) names: BTreeMap<String, CratePath>,
    /// The modules whose items a `use …::*` brings into scope.
    pub(super) globs: Vec<CratePath>,
    /// The items that are defined here, without modules.
    pub(super) items: Vec<String>,
    /// The paths in its code that begin inside the crate.
    pub(super) mentions: Vec<CratePath>,
    /// The modules in files of their own that only tests have.
    pub(super) tests: Vec<CratePath>,
}

impl Module {
    /// Reads a file into the modules of its crate.
    pub(super) fn read(file: &Path, items: &[Item], modules: &mut BTreeMap<CratePath, Self>) {
        read(file, path_of(file), items, modules);
    }
}

/// `a/b.rs` and `a/b/mod.rs` are the module `a::b`.
fn path_of(file: &Path) -> CratePath {
    let mut path: CratePath =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

fn read(file: &Path, here: CratePath, items: &[Item], modules: &mut BTreeMap<CratePath, Module>) {
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    let mut children: Vec<(String, &ItemMod)> = Vec::new();
    let mut imports = Vec::new();
    for item in items {
        match item {
            Item::Use(item) if is_test(&item.attrs) => {}
            Item::Use(item) => imports.push(item),
            Item::Mod(item) if is_test(&item.attrs) => {
                module.tests.push(of_child(&here, &item.ident.to_string()));
            }
            Item::Mod(item) => children.push((item.ident.to_string(), item)),
            other => module.items.extend(name_of(other)),
        }
    }
    let children_names: Vec<&str> = children.iter().map(|(name, _)| name.as_str()).collect();
    for item in imports {
        module.import(item, &here, &children_names);
    }
    let mut mentions = Vec::new();
    for item in items {
        if !matches!(item, Item::Use(_) | Item::Mod(_)) {
            let children = &children_names;
            Mentions { module: &module, here: &here, children, found: &mut mentions }
                .visit_item(item);
        }
    }
    module.mentions.extend(mentions);
    for (name, child) in &children {
        if let Some((_, items)) = &child.content {
            read(file, of_child(&here, name), items, modules);
        }
    }
    modules.insert(here, module);
}

fn of_child(here: &CratePath, name: &str) -> CratePath {
    here.iter().cloned().chain([name.to_owned()]).collect()
}

impl Module {
    fn import(&mut self, item: &ItemUse, here: &CratePath, children: &[&str]) {
        let is_private = matches!(item.vis, syn::Visibility::Inherited);
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        for (path, name) in leaves {
            let Some(path) = absolute(&path, here, children) else { continue };
            match name {
                None => self.globs.push(path),
                Some(name) => {
                    if is_private {
                        self.mentions.push(path.clone());
                    }
                    self.names.insert(name, path);
                }
            }
        }
    }

    /// The path from the crate's root of a path that stands in the module's code.
    fn inside(&self, path: &[String], here: &CratePath, children: &[&str]) -> Option<CratePath> {
        if let Some(absolute) = absolute(path, here, children) {
            return Some(absolute);
        }
        let named = self.names.get(path.first()?)?;
        Some(named.iter().chain(path.iter().skip(1)).cloned().collect())
    }
}

/// Each leaf of a `use` item with the name that it brings into scope; none for `*`.
fn flatten(tree: &UseTree, path: &mut CratePath, leaves: &mut Vec<(CratePath, Option<String>)>) {
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            flatten(&tree.tree, path, leaves);
            path.pop();
        }
        UseTree::Name(tree) if tree.ident == "self" => {
            leaves.push((path.clone(), path.last().cloned()));
        }
        UseTree::Name(tree) => {
            let name = tree.ident.to_string();
            path.push(name.clone());
            leaves.push((path.clone(), Some(name)));
            path.pop();
        }
        UseTree::Rename(tree) => {
            path.push(tree.ident.to_string());
            leaves.push((path.clone(), Some(tree.rename.to_string())));
            path.pop();
        }
        UseTree::Glob(_) => leaves.push((path.clone(), None)),
        UseTree::Group(tree) => {
            for item in &tree.items {
                flatten(item, path, leaves);
            }
        }
    }
}

/// A path that begins with `crate`, `self`, `super` or the name of a child, from the crate's root.
fn absolute(path: &[String], here: &CratePath, children: &[&str]) -> Option<CratePath> {
    let (first, rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => here.clone(),
        "super" => here.split_last()?.1.to_vec(),
        name if children.contains(&name) => of_child(here, name),
        _ => return None,
    };
    for part in rest {
        if part == "super" {
            base.pop();
        } else {
            base.push(part.clone());
        }
    }
    Some(base)
}

/// The paths in code, those in the arguments of macros included.
struct Mentions<'a> {
    module: &'a Module,
    here: &'a CratePath,
    children: &'a [&'a str],
    found: &'a mut Vec<CratePath>,
}

impl Mentions<'_> {
    fn add(&mut self, path: &[String]) {
        self.found.extend(self.module.inside(path, self.here, self.children));
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(&path);
                        path.clear();
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                }
                other => {
                    self.add(&path);
                    path.clear();
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.add(&path);
    }
}

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).is_some_and(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.add(&parts);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

/// Compiled for tests alone.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || path.is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| {
                    let text = list.tokens.to_string();
                    text == "test" || text.starts_with("all (test")
                })
    })
}

fn attributes(item: &Item) -> Option<&[Attribute]> {
    Some(match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => return None,
    })
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
