//! Links from the documentation and the READMEs to the documentation of this workspace's crates.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Follows all links. READMEs are also read outside the repository, so their links need complete addresses.
pub(super) fn check(root: PathBuf, docs: PathBuf, crates: Vec<String>) -> Result<()> {
    let mut links = Links { root, docs, crates, ids: HashMap::new(), dead: BTreeSet::new() };
    for name in links.crates.clone() {
        links.follow_documentation(&links.docs.join(name.replace('-', "_")))?;
        links.follow_readme(&links.root.join("crates").join(name).join("README.md"))?;
    }
    if !links.dead.is_empty() {
        bail!("dead links:\n{}", Vec::from_iter(links.dead).join("\n"));
    }
    Ok(())
}

struct Links {
    root: PathBuf,
    /// The folder of rustdoc's output.
    docs: PathBuf,
    /// The published packages.
    crates: Vec<String>,
    /// The anchors of the pages that were read.
    ids: HashMap<PathBuf, HashSet<String>>,
    dead: BTreeSet<String>,
}

impl Links {
    fn follow_documentation(&mut self, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                self.follow_documentation(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "html") {
                for link in values(&fs::read_to_string(&path)?, "href=\"", '"') {
                    self.follow(&path, link)?;
                }
            }
        }
        Ok(())
    }

    fn follow_readme(&mut self, path: &Path) -> Result<()> {
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        for link in values(&text, "](", ')').chain(values(&text, "]: ", '\n')) {
            // `[name][reference]` has its address in another place.
            if link.starts_with("https://") {
                self.follow(path, link)?;
            } else {
                self.dead.insert(format!("  {}: {link} has no meaning elsewhere", path.display()));
            }
        }
        Ok(())
    }

    fn follow(&mut self, page: &Path, link: &str) -> Result<()> {
        let (address, anchor) = link.split_once('#').unwrap_or((link, ""));
        let Some(mut file) = self.file(page, address) else { return Ok(()) };
        if file.is_dir() {
            file.push("index.html");
        }
        let found = file.is_file() && (anchor.is_empty() || self.has_anchor(&file, anchor)?);
        if !found {
            self.dead.insert(format!("  {}: {link}", page.display()));
        }
        Ok(())
    }

    /// The file of this workspace that a link points to; `None` for all other links.
    fn file(&self, page: &Path, address: &str) -> Option<PathBuf> {
        if let Some(source) = address.strip_prefix("https://docs.rs/crate/") {
            let (name, file) = source.split_once("/latest/source/")?;
            return self.is_ours(name).then(|| self.root.join("crates").join(name).join(file));
        }
        if let Some(documentation) = address.strip_prefix("https://docs.rs/") {
            let (name, file) = documentation.split_once("/latest/")?;
            return self.is_ours(name).then(|| self.docs.join(file));
        }
        if address.is_empty() {
            return Some(page.to_owned());
        }
        // Text that rustdoc copied from a crate without its documentation has dead links: `dispatcher`,
        // `AsyncWrite::poll_write`.
        let named =
            Path::new(address).components().find(|part| matches!(part, Component::Normal(_)));
        let ours =
            named.is_some_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"syncguard"));
        let page_like = Path::new(address).extension().is_some_and(|extension| extension == "html");
        let local = !address.contains("://") && (ours || page_like);
        local.then(|| page.parent().unwrap_or(page).join(address))
    }

    fn is_ours(&self, name: &str) -> bool {
        self.crates.iter().any(|ours| ours == name)
    }

    fn has_anchor(&mut self, file: &Path, anchor: &str) -> Result<bool> {
        // In sources, an anchor is a range of lines.
        if file.as_os_str().as_encoded_bytes().ends_with(b".rs.html") {
            return Ok(true);
        }
        let mut file = file.canonicalize()?;
        if !self.ids.contains_key(&file) {
            let mut text = fs::read_to_string(&file)?;
            // An item that is public in another place than its definition.
            let elsewhere = values(&text, REDIRECTION, '"').next().map(str::to_owned);
            if let Some(elsewhere) = elsewhere {
                file = file.with_file_name("").join(elsewhere).canonicalize()?;
                text = fs::read_to_string(&file)?;
            }
            let ids = values(&text, "id=\"", '"').map(str::to_owned).collect();
            self.ids.insert(file.clone(), ids);
        }
        Ok(self.ids[&file].contains(anchor))
    }
}

/// The beginning of a page that only redirects.
const REDIRECTION: &str = "<meta http-equiv=\"refresh\" content=\"0;URL=";

/// Each text between `start` and `end`.
fn values<'a>(text: &'a str, start: &'a str, end: char) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(move |rest| rest.split_once(end)).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dead links in a README or on a page of the crate `syncguard-a`.
    fn dead(readme: &str, page: &str) -> Result<String> {
        let folder = tempfile::tempdir()?;
        let (root, docs) = (folder.path().to_owned(), folder.path().join("doc"));
        for (path, text) in [
            ("crates/syncguard-a/README.md", readme),
            ("crates/syncguard-a/examples/e.rs", "fn main() {}"),
            ("doc/syncguard_a/index.html", page),
            ("doc/syncguard_a/m/index.html", r#"<a id="method.f" href="../struct.S.html">"#),
            ("doc/syncguard_a/hidden/struct.S.html", &format!("{REDIRECTION}../struct.S.html\">")),
            ("doc/syncguard_a/struct.S.html", r##"<a href="#method.g" id="method.g">"##),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().context("no folder")?)?;
            fs::write(path, text)?;
        }
        let result = check(root.clone(), docs, vec!["syncguard-a".to_owned()]);
        let told = result.err().map(|error| error.to_string()).unwrap_or_default();
        Ok(told.replace(root.to_str().context("not Unicode")?, ""))
    }

    #[test]
    fn follows_links_that_lead_somewhere() -> Result<()> {
        let readme = "[a](https://docs.rs/syncguard-a/latest/syncguard_a/m/) [b][r] \
                      [c](https://elsewhere.example)\n\n\
                      [r]: https://docs.rs/crate/syncguard-a/latest/source/examples/e.rs\n";
        let page = r#"<a href="struct.S.html#method.g"><a href="m/index.html"><a href="dispatcher#x">
                      <a href="hidden/struct.S.html#method.g">
                      <a href="https://docs.rs/syncguard-a/latest/syncguard_a/m/index.html#method.f">"#;
        assert_eq!(dead(readme, page)?, "");
        Ok(())
    }

    #[test]
    fn names_those_that_do_not() -> Result<()> {
        for link in [
            "https://docs.rs/syncguard-a/latest/syncguard_a/n/",
            "https://docs.rs/crate/syncguard-a/latest/source/examples/f.rs",
            "examples/e.rs",
        ] {
            for readme in [format!("[a]({link})"), format!("[a][r]\n\n[r]: {link}\n")] {
                let told = dead(&readme, "")?;
                assert!(told.contains(link) && told.contains("README.md"), "{told}");
            }
        }
        for link in [
            "struct.T.html",
            "struct.S.html#method.f",
            "hidden/struct.S.html#method.f",
            "../syncguard_b/index.html",
            "syncguard_core::Locker",
            "#method.f",
            "https://docs.rs/syncguard-a/latest/syncguard_a/m/index.html#method.g",
        ] {
            let told = dead("", &format!("<a href=\"{link}\">"))?;
            assert!(told.ends_with(&format!("/doc/syncguard_a/index.html: {link}")), "{told}");
        }
        Ok(())
    }
}
