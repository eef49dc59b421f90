//! `corten image`: the images of this machine, whether its node runs or not.

mod progress;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::{Parser, Subcommand};
use corten_container::image::{Named, Store};
use corten_container::registry::{Registries, RegistriesConfig};

/// Import, export, list, remove and pull images on this machine.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Parser)]
struct Place {
    /// Data directory of the server or agent
    #[arg(long, value_name = "DIR", default_value = "/var/lib/corten")]
    data_dir: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Import image archives of `docker save` and OCI tools
    Import {
        #[command(flatten)]
        place: Place,
        /// Files, or `-` for standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Export images as an archive for OCI tools and `docker load`
    Export {
        #[command(flatten)]
        place: Place,
        /// File to write [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[arg(required = true, value_name = "IMAGE")]
        images: Vec<String>,
    },
    /// List images
    Ls {
        #[command(flatten)]
        place: Place,
    },
    /// Remove image names, and images with their last name
    Rm {
        #[command(flatten)]
        place: Place,
        #[arg(required = true, value_name = "IMAGE")]
        images: Vec<String>,
    },
    /// Pull images from their registries
    Pull {
        #[command(flatten)]
        place: Place,
        /// Registry mirrors, credentials and CAs, in the format of k3s' registries.yaml
        #[arg(long, value_name = "FILE", default_value = "/etc/corten/registries.yaml")]
        registries: PathBuf,
        #[arg(required = true, value_name = "IMAGE")]
        images: Vec<String>,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Import { place, files } => import(&place.open()?, &files),
        Command::Export { place, output, images } => export(&place.open()?, output.as_deref(), &images),
        Command::Ls { place } => list(&place.open()?),
        Command::Rm { place, images } => {
            images.iter().try_for_each(|image| Ok(place.open()?.untag(image)?))
        }
        Command::Pull { place, registries, images } => pull(&Arc::new(place.open()?), &registries, &images),
    }
}

impl Place {
    fn open(&self) -> anyhow::Result<Store> {
        let folder = corten_container::folder(&self.data_dir);
        Store::open(&folder).with_context(|| format!("cannot open the images in {}", folder.display()))
    }
}

fn import(store: &Store, files: &[PathBuf]) -> anyhow::Result<()> {
    for file in files {
        let imported = if file == Path::new("-") {
            store.import(io::stdin())
        } else {
            store.import(File::open(file).with_context(|| format!("cannot open {}", file.display()))?)
        };
        for image in imported.with_context(|| format!("cannot import {}", file.display()))? {
            let name = if image.names.is_empty() { image.id.to_string() } else { image.names.join(" ") };
            writeln!(io::stdout(), "{name}")?;
        }
    }
    Ok(())
}

fn export(store: &Store, output: Option<&Path>, images: &[String]) -> anyhow::Result<()> {
    match output {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
            let mut file = io::BufWriter::new(file);
            store.export(images, &mut file)?;
            file.flush().with_context(|| format!("cannot write {}", path.display()))
        }
        None => Ok(store.export(images, io::stdout().lock())?),
    }
}

fn list(store: &Store) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for Named { record: image, tags, digests } in store.images()? {
        let id = image.id.hex().chars().take(12).collect::<String>();
        let names = if tags.is_empty() { digests } else { tags };
        let names = if names.is_empty() { vec!["<none>".to_owned()] } else { names };
        rows.extend(names.into_iter().map(|name| (name, id.clone(), progress::size(image.size))));
    }
    rows.sort();
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or_default().max("IMAGE".len());
    let mut out = io::stdout().lock();
    writeln!(out, "{:width$}  {:12}  SIZE", "IMAGE", "ID")?;
    for (name, id, size) in rows {
        writeln!(out, "{name:width$}  {id:12}  {size}")?;
    }
    Ok(())
}

fn pull(store: &Arc<Store>, config: &Path, images: &[String]) -> anyhow::Result<()> {
    let registries = Registries::new(registries(config)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for image in images {
        let bar = progress::Bar::new(image);
        let pulled = runtime.block_on(registries.pull(store, image, None, &bar.progress()));
        bar.finish();
        writeln!(io::stdout(), "{}", pulled?.id)?;
    }
    Ok(())
}

/// Reads the registries' configuration; the default one if there is no file.
fn registries(path: &Path) -> anyhow::Result<RegistriesConfig> {
    match RegistriesConfig::read(path) {
        Ok(config) => Ok(config.unwrap_or_default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}
