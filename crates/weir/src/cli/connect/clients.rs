//! The programs that `weir connect` knows: where each keeps its configuration, in which format, and how it writes an entry; and of
//! those that a file can tell it, where they ask models.
//!
//! Adding a program is one row of [`CLIENTS`]. Each row names the page that documents its form.

use std::path::PathBuf;

use serde_json::{Value, json};

/// One program that speaks MCP as a client.
pub(in crate::cli) struct Client {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in sentences.
    pub title: &'static str,
    /// The configuration of this user.
    pub user: Place,
    /// The configuration of a project, below its folder, if the program has one.
    pub project: Option<&'static str>,
    pub format: Format,
    /// The member that holds its servers.
    pub root: &'static str,
    pub key: KeyForm,
    /// How it is told where models are asked, where a file can say that.
    pub models: Option<ModelsFile>,
    entry: fn(&Target<'_>) -> Value,
}

/// The file that tells a program where it asks models.
pub(in crate::cli) struct ModelsFile {
    /// That of this user.
    pub user: Place,
    /// That of a project, below its folder.
    pub project: &'static str,
    pub format: Format,
    /// The program's own variable for the key; absent where the entry names one.
    pub variable: Option<&'static str>,
    /// What is written, below which names; the target's URL is that of the gateway.
    pub sections: fn(&Target<'_>) -> Vec<ModelsSection>,
}

/// Entries below one name; below none they stand at the top.
pub(in crate::cli) type ModelsSection = (&'static str, Vec<(&'static str, Value)>);

/// Where a user's configuration is.
#[derive(Clone, Copy)]
pub(in crate::cli) enum Place {
    /// In the folder that the variable names, else in that folder of the home folder.
    Own {
        variable: &'static str,
        folder: &'static str,
        file: &'static str,
    },
    /// Below the home folder.
    Home(&'static str),
    /// Below `$XDG_CONFIG_HOME`, or else `~/.config`.
    Xdg(&'static str),
    /// Below `~/Library/Application Support` on macOS; elsewhere as [`Place::Xdg`].
    Application(&'static str),
}

/// The format of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Format {
    /// JSON; comments and trailing commas are kept where there are any.
    Json,
    Toml,
    /// Lines of NAME=value, as shells and dotenv read them.
    Variables,
}

/// How a program is told of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum KeyForm {
    /// It reads a variable of its own environment.
    Variable,
    /// It cannot refer to a variable, so the key is written only if a person asks for that.
    Written,
}

/// One server of weir, as an entry is written for it.
pub(in crate::cli) struct Target<'t> {
    pub url: &'t str,
    /// The variable that holds the key.
    pub variable: &'t str,
    /// The key, where it is to be written as text.
    pub key: Option<&'t str>,
}

impl Target<'_> {
    /// The Authorization field, with the program's own way to refer to a variable around its name.
    fn bearer(&self, before: &str, behind: &str) -> String {
        match self.key {
            Some(key) => format!("Bearer {key}"),
            None => format!("Bearer {before}{}{behind}", self.variable),
        }
    }
}

pub(in crate::cli) const CLIENTS: &[Client] = &[
    Client {
        // code.claude.com/docs/en/mcp: "Environment variable expansion in .mcp.json" names url and headers.
        name: "claude-code",
        title: "Claude Code",
        user: Place::Own {
            variable: "CLAUDE_CONFIG_DIR",
            folder: "",
            file: ".claude.json",
        },
        project: Some(".mcp.json"),
        format: Format::Json,
        root: "mcpServers",
        key: KeyForm::Variable,
        // code.claude.com/docs/en/settings: env of settings.json; code.claude.com/docs/en/llm-gateway: ANTHROPIC_BASE_URL,
        // ANTHROPIC_AUTH_TOKEN.
        models: Some(ModelsFile {
            user: Place::Own {
                variable: "CLAUDE_CONFIG_DIR",
                folder: ".claude",
                file: "settings.json",
            },
            project: ".claude/settings.json",
            format: Format::Json,
            variable: Some("ANTHROPIC_AUTH_TOKEN"),
            sections: |target| {
                let mut env = vec![("ANTHROPIC_BASE_URL", json!(target.url))];
                env.extend(target.key.map(|key| ("ANTHROPIC_AUTH_TOKEN", json!(key))));
                vec![("env", env)]
            },
        }),
        entry: |target| {
            let authorization = target.bearer("${", "}");
            json!({ "type": "http", "url": target.url, "headers": { "Authorization": authorization } })
        },
    },
    Client {
        // modelcontextprotocol.io/docs/develop/connect-local-servers: commands only. github.com/geelen/mcp-remote: it replaces
        // ${NAME} in --header, and takes plain HTTP to other machines with --allow-http alone.
        name: "claude-desktop",
        title: "Claude Desktop",
        user: Place::Application("Claude/claude_desktop_config.json"),
        project: None,
        format: Format::Json,
        root: "mcpServers",
        key: KeyForm::Written,
        models: None,
        entry: desktop,
    },
    Client {
        // cursor.com/docs/mcp, "Config interpolation": ${env:NAME} in command, args, env, url and headers.
        name: "cursor",
        title: "Cursor",
        user: Place::Home(".cursor/mcp.json"),
        project: Some(".cursor/mcp.json"),
        format: Format::Json,
        root: "mcpServers",
        key: KeyForm::Variable,
        models: None,
        entry: |target| {
            let authorization = target.bearer("${env:", "}");
            json!({ "url": target.url, "headers": { "Authorization": authorization } })
        },
    },
    Client {
        // code.visualstudio.com/docs/copilot/reference/mcp-configuration: servers, type http; predefined variables, of which
        // code.visualstudio.com/docs/reference/variables-reference has ${env:NAME}.
        name: "vscode",
        title: "VS Code",
        user: Place::Application("Code/User/mcp.json"),
        project: Some(".vscode/mcp.json"),
        format: Format::Json,
        root: "servers",
        key: KeyForm::Variable,
        models: None,
        entry: |target| {
            let authorization = target.bearer("${env:", "}");
            json!({ "type": "http", "url": target.url, "headers": { "Authorization": authorization } })
        },
    },
    Client {
        // developers.openai.com/codex/mcp: url, bearer_token_env_var; codex refuses a token as text.
        name: "codex",
        title: "Codex",
        user: Place::Own {
            variable: "CODEX_HOME",
            folder: ".codex",
            file: "config.toml",
        },
        project: Some(".codex/config.toml"),
        format: Format::Toml,
        root: "mcp_servers",
        key: KeyForm::Variable,
        // developers.openai.com/codex/config-advanced: model_provider, model_providers with base_url, env_key, wire_api.
        models: Some(ModelsFile {
            user: Place::Own {
                variable: "CODEX_HOME",
                folder: ".codex",
                file: "config.toml",
            },
            project: ".codex/config.toml",
            format: Format::Toml,
            variable: None,
            sections: |target| {
                let provider = json!({
                    "name": "weir", "base_url": format!("{}/v1", target.url), "env_key": target.variable,
                    "wire_api": "responses", "supports_websockets": true,
                });
                vec![
                    ("", vec![("model_provider", json!("weir"))]),
                    ("model_providers", vec![("weir", provider)]),
                ]
            },
        }),
        entry: |target| json!({ "url": target.url, "bearer_token_env_var": target.variable }),
    },
    Client {
        // geminicli.com/docs/tools/mcp-server: httpUrl is streamable HTTP (url would be SSE), headers; and
        // geminicli.com/docs/cli/configuration: values of settings.json may refer to $NAME or ${NAME}.
        name: "gemini",
        title: "Gemini CLI",
        user: Place::Home(".gemini/settings.json"),
        project: Some(".gemini/settings.json"),
        format: Format::Json,
        root: "mcpServers",
        key: KeyForm::Variable,
        // geminicli.com/docs/get-started/configuration: .gemini/.env; GOOGLE_GEMINI_BASE_URL is read by its library.
        models: Some(ModelsFile {
            user: Place::Home(".gemini/.env"),
            project: ".gemini/.env",
            format: Format::Variables,
            variable: Some("GEMINI_API_KEY"),
            sections: |target| {
                let mut variables = vec![("GOOGLE_GEMINI_BASE_URL", json!(target.url))];
                variables.extend(target.key.map(|key| ("GEMINI_API_KEY", json!(key))));
                vec![("", variables)]
            },
        }),
        entry: |target| {
            let authorization = target.bearer("${", "}");
            json!({ "httpUrl": target.url, "headers": { "Authorization": authorization } })
        },
    },
    Client {
        // zed.dev/docs/ai/mcp: url and headers, as text.
        name: "zed",
        title: "Zed",
        user: Place::Xdg("zed/settings.json"),
        project: Some(".zed/settings.json"),
        format: Format::Json,
        root: "context_servers",
        key: KeyForm::Written,
        models: None,
        entry: |target| match target.key {
            None => json!({ "url": target.url }),
            Some(_) => {
                let authorization = target.bearer("", "");
                json!({ "url": target.url, "headers": { "Authorization": authorization } })
            }
        },
    },
];

/// A command that speaks HTTP for a program that starts commands only.
fn desktop(target: &Target<'_>) -> Value {
    let mut args = vec!["-y", "mcp-remote", target.url];
    let url = crate::config::values::url(target.url);
    if url.is_ok_and(|url| !url.https && !url.is_loopback()) {
        args.push("--allow-http");
    }
    let header = format!("Authorization:Bearer ${{{}}}", target.variable);
    args.extend(["--header", &header]);
    match target.key {
        None => json!({ "command": "npx", "args": args }),
        Some(key) => json!({ "command": "npx", "args": args, "env": { target.variable: key } }),
    }
}

impl Client {
    /// The program of that name.
    pub(in crate::cli) fn named(name: &str) -> Option<&'static Client> {
        CLIENTS.iter().find(|client| client.name == name)
    }

    /// What it is told of a server.
    pub(in crate::cli) fn entry(&self, target: &Target<'_>) -> Value {
        (self.entry)(target)
    }

    /// The configuration of this user, if there is a home folder.
    pub(in crate::cli) fn user_file(&self) -> Option<PathBuf> {
        self.user.path()
    }
}

impl Place {
    /// The file, if there is a home folder.
    pub(in crate::cli) fn path(self) -> Option<PathBuf> {
        // A relative path is to be ignored (XDG Base Directory Specification).
        let folder = |name: &str| {
            let folder = std::env::var_os(name).map(PathBuf::from);
            folder.filter(|folder| folder.is_absolute())
        };
        let home = || folder("HOME");
        let xdg = || folder("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")));
        match self {
            Place::Own {
                variable,
                folder: own,
                file,
            } => folder(variable)
                .or_else(|| Some(home()?.join(own)))
                .map(|folder| folder.join(file)),
            Place::Home(file) => Some(home()?.join(file)),
            Place::Xdg(file) => Some(xdg()?.join(file)),
            Place::Application(file) if cfg!(target_os = "macos") => {
                Some(home()?.join("Library/Application Support").join(file))
            }
            Place::Application(file) => Some(xdg()?.join(file)),
        }
    }
}
