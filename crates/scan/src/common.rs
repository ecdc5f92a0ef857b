//! Words of our rules that ordinary text has often, by how often: which step of a branch opens it.
//!
//! Counted in the documentation, source and JSON of some hundred packages, by `examples/count_words.rs`. A word that
//! is missing is taken for a rare one, which costs time and hides nothing.

/// How often words stand in a megabyte, as parts of others too, as a power of two, and those words.
pub(crate) const PARTS: &[(u32, &str)] = &[
    (
        13,
        "\
     er in re",
    ),
    (
        12,
        "\
     an at de en es he it le me on or se te ti",
    ),
    (
        11,
        "\
     agli al alla alle als anche ao aos as auch aus avec bei ce ces che chi ci com comme como con \
     cui da dal das dass dei dein del dem den der des di die diese dit do dos dove du ein eine el \
     elle em entre est esta este esto et eu fait fare foi fur gli ha hat hay ich il im io is isso \
     ist ja kein la las les leur lo loro los lui ma mais man mas meme mes mi mit moi mon na nach \
     nao nas ne nel nem no noch noi non nos nous nun nur oder ogni os ou par para pas plus por \
     pour prima qual que questa questo sans sao ser ses seu seus si sie sin sind so son sono sont \
     su sua sur sus ta tem tes the to todo todos ton tous tout tra tu tus type um uma un una und \
     une uno uns unser us usted va ve von vor vos was wenn wie wir ya zu",
    ),
    (
        10,
        "\
     :// ab ad ame and ation be for hi http https if let name nc of self ter",
    ),
    (
        9,
        "\
     ## ](http add ai all are arg by cont dat error ess fa from get github han her his ia ki named \
     ni ok one per pre qui ran rate rg rm set sh sys thi this true up use value ver vi we win with",
    ),
    (
        8,
        "\
     10 act age agent agents answer api assistant assistants ber bind but cal can cat cc code col \
     conte core data dis eme end ese fal fals false field fin fix format hang has ica ime index \
     instruction instructions key lea line link lit liz llm message messages met method model nal \
     new nge not num object option out pat pec pres prompt put read ren require required result \
     ret rib string system table tar target ten test that time token tool tools user users usi \
     window wo yo",
    ),
    (
        7,
        "\
     ![ \"content\" \"system\" activ any block bytes call car cess chang change check clone \
     content context cop copy count cre cript date dati debug default dev document ende erator ete \
     example file fixe flag follow found func function gener go hand hange here hre implement info \
     input into its json lis list log mar mode none now off other our own param pare part path pol \
     press prov raw release requires return rig rot safe sag sche schema script see serv sig sign \
     spa stan state sub super support sync tai tan tera term text tom trait try turn var version \
     web when where will word work write you",
    ),
    (
        6,
        "\
     &[ >> _token abo acces access action activa activate activated addition allow apis ask \
     attribu bac back badge base bina bound case ced cel changed cit class coll colle collect \
     commit compar compi complet complete confi config conta contain crea creat create cto current \
     dar day db declar definition description deve dia dic dir dire direct display else enable \
     encod encode entity entr entry ever expected fac fai fica fine first following fra full \
     genera gets handle have header help hor how ici id_ img incl inclu indi inner instead issue \
     kernel label lass late left ler leve lie like limit lla long lus mai main make matter may \
     meta mete meter mis more my nder need next nor nul null old only open opera order output over \
     parameter parti ped pee pin plac place play poi point pon present print project proper \
     protocol provide quest refer remov remove repo report request right rod rst run sage second \
     sem send sent serve should sitio sou source src star start status stead sue take tant then \
     thread tokens too tro turns unsafe update used using valid values variant ved vide visit void \
     wait which without your zero",
    ),
    (
        5,
        "\
     </ << _data _from_ _key abilit accept actions additional address adi after also alt always \
     annot appl argument assign ativ ative auth auto autom automa automat available been befor \
     before binary body borr bot break bump cach cache carr carry cause cell cet chain changes \
     channel character cher cle client clip close color command compile compr compre compress \
     contains convert corr corre custom decod decode definitions dependency deprecate deprecated \
     detail developer devi dica dig digit disco dm does don down draw dress drop each enabled env \
     eres escrib escribe eso exist extern extra files filter find flow frag free functions futu \
     futur future generate gist give given hai hei hex hey ias image import includ include inform \
     informat information initial inser insert internal invalid join know known last leg lia lien \
     literal load local location look lose mand mark mask memo memor memory mente mie modifi \
     modifie moved must names needed nif nom nota note noti once operation optional ora ordering \
     ordin pack pag pai parameters parsing pass perform ping polic policy pose post prefi prefix \
     prim process produce prove publi push qua quen quer query reader referenc reference registe \
     register removed repeat repl replac replace reserv response rest rid rol rule rules sab same \
     search section security select sequence server service share side signed since single sito \
     skip sol special stamp stand standard store sure tac tal task tens termin termina tests them \
     there these they toma top track tua two under unic unknown unter usa uses vai variable ways \
     while width would",
    ),
    (
        4,
        "\
     .md .ru /* _of_ _text abort about abov above actu actua actual adding allowed already alter \
     ante applica area arguments ascii assum audit automatic avoid aws begin being between binding \
     blob bort branch bucket built called caller calls cancel cannot capture catch chat checked \
     cipher clear closed coding come comment configur connection consider constraint continu \
     continue contributor correct could counts cover dated describe described dest diagnostic did \
     different digits dio directly director directory disable doesn dou double draft dsa edit ello \
     elud ended equal escape eval evalu every exact exec execut explicitly export fact failure \
     fetch figur fill final finish force grade guard gur hello helper het hint hit hol host ignor \
     ignore inclus indic initiali instru isto just keep keys ki- larg latest layer lector lee \
     legat lies ligne limite limits linea locate logo longer lower mach master mcp merge metadata \
     might minor mio mot native never norm norma normal omet ones opens operations operator ordina \
     origina original page parallel patch pending permit pid pie please preced previ previous \
     priva private property provided provider public quali quote reads real reason record registr \
     relax released remain reset respond restric root rsa safety sar seed sei sende sender sepa \
     sess session setting shall show software storage submit such swap terminal their those \
     through till tod toi trace transf transform tun turned unless until updated upgrade url vale \
     valen valent veda verif verify verse versions via view vir visitor want warn warning wat well \
     were what who within workflow workflows/ works",
    ),
    (
        3,
        "\
     ../ [chat across active admin again ahead aim alt= amo anos anot appear append apply apr asks \
     assume atas aver ban base64 bce beam below best better board book came card cee certif cessa \
     cesse checks choose cita claim comes copi copie copied cursor dan dead delet delete design \
     dice dime dite dns done drive due during effect elicit embed emoji ensure enter entire enumer \
     envi erst esig etic exclu exib expon expose got habe habl hable had hak happen height hold \
     icon iga indica inject inside instal intent invo later lead lei lines links liste listen \
     lookup made mail manual means mep mia mir mise much needs nest neste nie notic notice notify \
     omit owner park parses parts passe past paste permis phone pick pip pipe placed plain points \
     power prefer prior profil rather recom recu rede reject revers review rien save scan score \
     secret seek seit setup shed ship shut signal site sole sound step stop stored sui suite \
     summar switch takes though tire to: total tou trat trate treat typed unique usual watch \
     weight white words world wrong zip",
    ),
    (
        2,
        "\
     -me <!- <!-- ={ [/ [//] [//]: accord adher adhere agree ais along ammi amount analy apri \
     assin avis aware bash become behind boot broke broken care cbo cela classe clean coming concu \
     ctrl dad dame deny disk doi doing dump ehe ehi email empf entra erase eur far favo favor \
     folder fru gif going good grant ham having haz hidden him hole home human ia: im_ invert \
     invoc invoca invok job joins kod kto lad lanc lance lasse latin lavor leave leit leite letter \
     leu levant liab liest lise looks marc marked minus modify notes nov npm nulla obtain occup \
     onto orient others passed passi passw pay pel perime person pixel prepar prime proxim python \
     quit recent regard render retain revis rights roba rotate route runs salt say shell simply \
     sola starte starts story strong sube taken tbo team teh tener teste to, tracks trust trying \
     uman undo unica vas verifi violat whole whose why yes",
    ),
    (
        1,
        "\
     2fa _dump `env acting adjust advise alert alles attach attest away beginn behave bio browse \
     calla cart celle ceo chosen cio cite cles click cloud cookie cours course cree curl decide \
     dialog didn dni dont dus ecco echo elimin enos ensen erased esa fake fallo finds fing finge \
     forbid garde gather gere gib gives goal goes google grace groupe heb hee hexa hide hle holder \
     impos insu invoke ira lato law leak learn legal loaded loose manda meant naming nein numa \
     oggi omite onde otr paga passwo pdf peg people phot phrase plugin powers rais raise rank \
     reich repet resta resum resume revert role rolle rompa rub sai scheme seem shadow silent \
     simul soy ssen ssn steal stopp strip suba suppl talk tell texte think third throw tras trick \
     tue twice uita unlock upon usr vea vedi vendor virtua wire won yours",
    ),
    (
        0,
        "\
     \"role\" \"you &< .env .top /etc/ <font <meta =< =[ ?< ?[ ?q= [fin [user] _email _mail `cat \
     abid abide abr acat acate acci aceda aceit aceite admit adopt adopte adress advice agente \
     agenti agis agl agora agreed ai: ainsi aja aje alerta alerte alleg allen aloja alta alto altr \
     altri altro anad analys ander andere anex anexe annoti anul anula anyone apag apart aply apos \
     approv apres aprov aqui argent aside askd asked asking assim assist assur assure asum atad \
     atend avali avant avere azure backup bam bank base32 bcc bear bearer began begins behalf \
     beste bien binde bitte boring bother breach breaks brief bring brings bullet buy bypass \
     cachee cada caesar cage censor cerc cete cett chaine chains cham champ chaos charg charge \
     chef chmod citer cites citi class= clave codex codifi cola cole comply conclu contes conto \
     contou correa cote cpf credit daa dai dall dare dark dashes data= datei dear debe declin \
     dedic deem dej deje dell demand deme demote dentro deploy deren dess dett deu di\' dicte dier \
     dies dieu digita dile dios diss disse diz dize doesnt dollar donate donn dono dovra dream \
     drill druck dry dsn duty e-mail ecdsa echte editor egregi elenc eleve emy engage entere \
     entite entreg enver erho ersten erwa eses estan etica euer euro evil evit examin exempt exfil \
     expedi expert explor faca facts fale falls father fatt fatti feld fera ferm ferma fiable fim \
     finta fire firma flip fonte forder fores forget former forn fortan forum foste frage frase \
     freed frei french fue fuer fulfil fung gab game gave geh geld gemini gens gente german gewa \
     gia gir git@ gitlab giving glem god gone gott gpt grab grants grav grave grund guarde guest \
     gzip habit hacker halt halte halves handed haras hast hasta haven hear held hereby hier hire \
     holds homep hono hoy humans hunt iban icona icono ignora ihm imagen imagin immi impose inves \
     invest invi invite issued itemi iwr jef jeu jour journ juste kak kam kept kis labor lade \
     laiss lanci launch laut laws leaves leer leis leste letra lhe liber libera libre lieu lift \
     lifted likes limiti linee lista listed lives livr llms login logs loja ltere maile mails \
     mailt maker mande mandi meet meio menc merci merk mhe minha minhas mirror modele moment moot \
     morse mother mustn nada neglig nesse nesta nobody nome norme notas npx nulle numero nyy oben \
     obliga obra okay omy opere opted oracle orden orders ordre otp otra oubli pagina paid panni \
     parl partie passes passwd pasted pause paying peca pece peda pede pegu penalt pense phish \
     photos pida pide piece pieces piu poe pon_ poser poste posted procur prohib prova pular punit \
     puo purge quand quel quiet quito raised rama rarely reali realiz recit recite reclam recus \
     redact reenvi refund refus refuse relay relis relit repair repi reply requer reste resuma \
     retir retire reun reveal revist revoke rfen richt riga ripped rivers robo robot rode rogue \
     roub routed ruf run: ruta saca sagen said salv saved says scho scrap scrape scrub seems sees \
     segn segu segue seite senden sera setz setze shell- shown sido siga sight signs simula slack \
     slip sneak social soon speak spell spende spent ssh stale stated stay stays steer sticks \
     stoppe stripe sudo suis supply suspen tabu tache tais tait talks tape tard tarea taught tells \
     tenu testo tete teu teus texto ticket toda today told tome totale toute traces tren troc trov \
     trunk trusts tu_ tutt tutte twin uncle ungu unno unpack upload urge urgent usat utilis utiliz \
     valide vej verfu verha verlo verra vesti visite visits voice voici voila voir volta vorn \
     wanted wants warm weg wende wget will, wipe wish wishe wonder worry wort wrote yok {# |> ~/.",
    ),
];

/// The same where words begin with them.
pub(crate) const BEGINS: &[(u32, &str)] = &[
    (
        11,
        "\
     agli al alla alle als an anche ao aos as auch aus avec bei ce ces che chi ci com comme como \
     con cui da dal das dass de dei dein del dem den der des di die diese dit do dos dove du ein \
     eine el elle em en entre er es est esta este esto et eu fait fare foi fur gli ha hat hay ich \
     il im in isso ist ja kein la las le les leur lo loro los lui ma mais man mas me meme mes mi \
     mit moi mon na nach nao nas ne nel nem no noch noi non nos nous nun nur oder ogni os ou par \
     para pas plus por pour prima qual que questa questo re sans sao se ser ses seu seus si sie \
     sin sind so son sono sont su sua sur sus ta te tem tes the todo todos ton tous tout tra tu \
     tus type um uma un una und une uno uns unser usted va von vor vos was wenn wie wir ya zu",
    ),
    (
        10,
        "\
     for http https name self to us",
    ),
    (
        9,
        "\
     ad add and be error fa github if is it let named of on or sys thi this true use value ve win \
     with",
    ),
    (
        8,
        "\
     10 agent agents ai all answer api assistant assistants at bind by cont conte core dat fal \
     fals false field fix from get has he index instruction instructions io key link llm message \
     messages met model new not option pat pre prompt ran require required result ret set sh \
     string system tar target test that ti time token tool tools user users ver we window wo",
    ),
    (
        7,
        "\
     \"content\" \"system\" ab act any are arg block bytes cal call can chang change clone code \
     col content cop data debug default dev dis document end example file fixe flag follow format \
     found func function gener hi implement input into json method none num object off ok one \
     other out param part path per read release requires return sche schema spa state sub super \
     support trait up usi var version vi web when where will write yo you",
    ),
    (
        6,
        "\
     ](http abo action activ activa activate activated addition allow apis attribu bac back badge \
     base but car case changed check class coll colle collect commit compar compi confi context \
     copy count cre crea creat create current date declar definition description dir else enable \
     encod encode entr fac fai fin first following full genera han hand handle have header hre img \
     incl inclu info inner instead issue kernel left leve like line lis list lit log long mai main \
     may meta mode more my need next now nul null only open opera order output over parameter \
     parti poi pol print project proper prov provide raw remov remove request rig right run see \
     send should sig sign src star start status sync ter term text thread tokens try unsafe update \
     used using values visit which without word work your zero",
    ),
    (
        5,
        "\
     acces access actions additional after also alt always appl argument auth auto autom automa \
     automat available been befor before bina binary body borr bot bound break bump cach cache cat \
     cc chain changes channel character client clip close color compile complet complete config \
     conta contain convert corr corre custom day decod decode definitions dependency deprecate \
     deprecated detail deve developer devi dig dire direct disco display does don drop each \
     enabled entity entry expected extern extra filter find fra free functions futu futur future \
     generate give given go help her here how image import includ include indi inform informat \
     information initial inser insert internal invalid its join ki label last lea limit literal \
     load local look make mar mark mask mie mis modifi modifie must names needed ni nom note noti \
     old once operation optional ordering own pack pai parameters pare parsing pass pee perform \
     pin point polic policy prefi prefix pres prim process protocol publi push quer query qui \
     refer referenc reference removed ren repeat repl replac replace repo report response rest \
     rule rules safe same search second section security select sem sequence serv serve server \
     share since single skip sou source stan stand standard store table tai take tan tant task \
     tests them then there these they tom too track two under unic usa valid variant void wait \
     while width",
    ),
    (
        4,
        "\
     abort about abov above accept actu actua actual address already alter annot applica arguments \
     ascii assign assum audit automatic avoid aws being ber between binding blob branch bucket \
     called caller cancel cannot capture catch cause ced cel cell chat cipher cle clear closed \
     command comment compr compre compress configur consider contains continu continue contributor \
     correct could counts dar describe described dia diagnostic different digit directly director \
     disable doesn dou double down draft draw edit env equal escape ever every exact exec exist \
     explicitly export failure fetch files fill final finish frag guard hello helper hex hint his \
     ia ignor ignore ime inclus indic initiali instru just keep keys know larg late latest linea \
     logo lower master memo memor memory merge metadata might minor mio never nor norm norma \
     normal opens operations operator ordin ordina origina original our pag page parallel permit \
     post preced present previ previous priva private produce property provided public qua quote \
     reader reason record registe register registr relax released remain reserv reset rm root \
     safety seed sende sender sepa service sess session shall show signed software sol special \
     submit such swap termin termina their those through top trace unknown unless until upgrade \
     url uses variable verif verify versions via visitor want warn warning well were what who \
     within workflow workflows/ works would",
    ),
    (
        3,
        "\
     [chat across adding again alt= amo anot appear append apply area assume base64 begin below \
     best better built calls carr carry certif checks choose copi copie copied cover cursor db \
     dead delet delete design dest dic did digits dns done drive due during elicit embed emoji \
     ensure entire enumer envi eval evalu exclu execut expon expose fact force gets got happen hei \
     height host id_ indica instal intent invo known later layer lead leg lines links longer \
     lookup mach made manual mcp means mir much native needs nest neste nota notic notice notify \
     ones park parses parts passe past paste patch permis pick pid plac place plain play please \
     power prefer prior profil put quali rather real recu revers rg scan secret seek sent signal \
     step stop stored sui summar switch takes though tod total tou transf treat tun unique usual \
     vide view wat watch weight white words world wrong",
    ),
    (
        2,
        "\
     accord active adher adhere age agree along ame amount analy apr apri ask aver aware ban bash \
     become behind book broke broken came care claim classe clean come comes concu ctrl dame dan \
     dime dm doi doing effect email enter erase favo favor flow folder good grant had hai haz \
     hidden hit hol hold home human icon inject inside invert invoc invoca invok joins kod letter \
     limite limits liste listen looks marc marked minus modify moved nc notes nov npm nulla obtain \
     omit orient others owner passed passi pay person phone pip pipe pixel points pose prime \
     python quest quit rate reads recent recom regard reject render retain review revis rights rol \
     rot rotate route salt save score script setup shell shut side simply sola sound starte starts \
     strong sube suite sure taken team teste trying turn typed undo verifi violat whole whose why \
     zip",
    ),
    (
        1,
        "\
     `env abilit adjust aim alert attach away beginn behave boot browse cart cbo chosen click \
     cookie cours course cto dad decide deny dice didn disk dont dsa dump echo elimin ende ended \
     enos erased ess fake far figur finds fine fing finge forbid gather gives goal goes going \
     google grace groupe ham having hexa hide him hor impos insu invoke job latin leak learn leave \
     lia liab liz locate loose mand manda meant mot naming numa occup onto passw passwo pdf people \
     phrase ping plugin prepar prove rais raise rank repet resum resume revert rid role rsa rst \
     runs sai say scheme seem shadow silent simul site steal strip suba suppl tell ten think third \
     throw till to, to: trick trust tue turns twice unlock usr vendor vir virtua ways won yes \
     yours",
    ),
    (
        0,
        "\
     \"role\" \"you -me .env .md .ru .top /etc/ 2fa <font <meta ?q= [fin [user] _data _dump _email \
     _from_ _key _mail _of_ _text _token `cat abid abide abr acat acate acci aceda aceit aceite \
     acting adi admin admit adopt adopte adress advice advise agente agenti agis agl agora agreed \
     ahead ai: ainsi ais aja aje alerta alerte alleg allen alles aloja alta alto altr altri altro \
     ammi anad analys ander andere anex anexe annoti anos ante anul anula anyone apag apart aply \
     apos approv apres aprov aqui argent aside askd asked asking asks assim assin assist assur \
     assure asum atad atas atend ation ativ ative attest avali avant avere avis azure backup bam \
     bank base32 bcc bce beam bear bearer began begins behalf beste bien binde bio bitte board \
     boring bort bother breach breaks brief bring brings bullet buy bypass cachee cada caesar cage \
     calla card cee cela celle censor ceo cerc cess cessa cesse cet cete cett chaine chains cham \
     champ chaos charg charge chef cher chmod cio cit cita cite citer cites citi class= clave cles \
     cloud codex codifi coding cola cole coming comply conclu contes conto contou correa cote cpf \
     credit cree cript curl daa dai dall dare dark dashes data= dated datei dati dear debe declin \
     dedic deem dej deje dell demand deme demote dentro deploy deren dess dett deu di\' dialog \
     dica dicte dier dies dieu digita dile dio dios diss disse dite diz dize dni doesnt dollar \
     donate donn dono dovra dream dress drill druck dry dsn dus duty e-mail ecco ecdsa echte \
     editor egregi ehe ehi elenc eleve ello elud eme empf emy engage ensen entere entite entra \
     entreg enver erator eres erho erst ersten erwa esa escrib ese eses esig eso estan ete etic \
     etica euer eur euro evil evit examin exempt exfil exib expedi expert explor faca facts fale \
     fallo falls father fatt fatti feld fera ferm ferma fiable fica fim finta fire firma flip \
     fonte forder fores forget former forn fortan forum foste frage frase freed frei french fru \
     fue fuer fulfil fung gab game garde gave geh geld gemini gens gente gere german gewa gia gib \
     gif gir gist git@ gitlab giving glem god gone gott gpt grab grade grants grav grave grund \
     guarde guest gur gzip habe habit habl hable hacker hak halt halte halves handed hang hange \
     haras hast hasta haven hear heb hee held hereby het hey hier hire hle holder holds hole homep \
     hono hoy humans hunt ia: ias iban ica ici icona icono iga ignora ihm im_ imagen imagin immi \
     impose inves invest invi invite ira issued isto itemi iwr jef jeu jour journ juste kak kam \
     kept ki- kis kto labor lad lade laiss lanc lance lanci lass lasse lato launch laut lavor law \
     laws leaves lector lee leer legal legat lei leis leit leite ler leste letra leu levant lhe \
     liber libera libre lie lien lies liest lieu lift lifted ligne likes limiti linee lise lista \
     listed lives livr lla llms loaded login logs loja lose ltere lus mail maile mails mailt maker \
     mande mandi matter meet meio menc mente mep merci merk mete meter mhe mia minha minhas mirror \
     mise modele moment moot morse mother mustn nada nal nder neglig nein nesse nesta nge nie nif \
     nobody nome norme notas npx nulle numero nyy oben obliga obra oggi okay omet omite omy onde \
     opere opted ora oracle orden orders ordre otp otr otra oubli paga pagina paid panni parl \
     partie passes passwd pasted pause paying pec peca pece ped peda pede peg pegu pel penalt \
     pense perime phish phot photos pida pide pie piece pieces piu placed poe pon pon_ poser poste \
     posted powers press procur prohib prova proxim pular punit puo purge quand quel quen quiet \
     quito raised rama rarely reali realiz recit recite reclam recus redact rede reenvi refund \
     refus refuse reich relay relis relit repair repi reply requer resta reste resuma retir retire \
     reun reveal revist revoke rfen rib richt rien riga ripped rivers roba robo robot rod rode \
     rogue rolle rompa roub routed rub ruf run: ruta sab saca sag sage sagen said salv sar saved \
     says scho scrap scrape scrub seems sees segn segu segue sei seit seite senden sera setz setze \
     shed shell- ship shown sido siga sight signs simula sitio sito slack slip sneak social sole \
     soon soy speak spell spende spent ssen ssh ssn stale stamp stated stay stays stead steer \
     sticks stopp stoppe story stripe sudo sue suis supply suspen tabu tac tache tais tait tal \
     talk talks tape tard tarea taught tbo teh tells tener tens tenu tera testo tete teu teus \
     texte texto ticket tire toda today toi told toma tome totale toute traces tracks tras trat \
     trate tren tro troc trov trunk trusts tu_ tua turned tutt tutte twin uita uman uncle ungu \
     unica unno unpack unter upload upon urge urgent usat utilis utiliz vai vale valen valent \
     valide vas vea ved veda vedi vej verfu verha verlo verra verse vesti visite visits voice \
     voici voila voir volta vorn wanted wants warm weg wende wget will, wipe wire wish wishe \
     wonder worry wort wrote yok",
    ),
];

/// The same of whole words.
pub(crate) const WHOLE: &[(u32, &str)] = &[
    (
        11,
        "\
     agli al alla alle als an anche ao aos as auch aus avec bei ce ces che chi ci com comme como \
     con cui da dal das dass de dei dein del dem den der des di die diese dit do dos dove du ein \
     eine el elle em en entre er es est esta este esto et eu fait fare foi fur gli ha hat hay ich \
     il im in isso ist ja kein la las le les leur lo loro los lui ma mais man mas me meme mes mi \
     mit moi mon na nach nao nas ne nel nem no noch noi non nos nous nun nur oder ogni os ou par \
     para pas plus por pour prima qual que questa questo sans sao se ser ses seu seus si sie sin \
     sind so son sono sont su sua sur sus ta te tem tes the todo todos ton tous tout tra tu tus \
     type um uma un una und une uno uns unser usted va von vor vos was wenn wie wir ya zu",
    ),
    (
        10,
        "\
     https self to",
    ),
    (
        9,
        "\
     and for github is let name named of this true use",
    ),
    (
        8,
        "\
     agent agents ai answer assistant assistants be by core error false field from if instruction \
     instructions it link llm message messages model new not on or prompt required result string \
     sys system that tool tools user users value with",
    ),
    (
        7,
        "\
     \"content\" \"system\" add all any api are bytes can clone content data debug default get \
     index input into io key method none object ok option requires return schema set super target \
     test time token version we web when where will you",
    ),
    (
        6,
        "\
     10 activated allow apis at badge block but case changed check class code context copy count \
     description else end example file first fix following format full function has have img info \
     inner instead json kernel list may more next now null num one only other output path read \
     release right see send should src state status support thread tokens trait try unsafe used \
     using values visit which without word write your",
    ),
    (
        5,
        "\
     access action actions after also always arg available been before binary body bump call cc \
     chain change changes channel client collect commit config create current custom date \
     definitions dependency deprecated developer display does drop each enabled entity entry \
     expected find flag functions given handle header help http image implement information insert \
     invalid its label last left like line literal log long main make meta mode must my needed nom \
     note optional order ordering out parameter parameters parsing pin policy project push raw re \
     reference remove removed request run same security since single source standard start sub \
     sync table take task tests text then there these they two under up update us variant void \
     while work zero",
    ),
    (
        4,
        "\
     about above accept additional address already alt argument arguments audit avoid aws back \
     base being between binding blob bound branch break cache called cannot catch cause character \
     chat closed color command compile complete contains convert could counts day definition \
     described dev different dir directly document don draft draw enable encode explicitly export \
     extern extra fetch files fill filter finish found free future hello here hex how ignore \
     import include internal issue join just keep keys latest limit load local logo mask master \
     memory merge metadata might minor mio names need never old once open operation operations \
     operator original our over own parallel part pass pat per point prefix print process protocol \
     provide provided public query quote reader repeat replace report require reset response rest \
     ret root rules safe safety search second section select sender sequence server session shall \
     sign skip software store such swap term their them those track unknown unless until url uses \
     valid var variable versions via visitor wait want well were what width within would",
    ),
    (
        3,
        "\
     [chat ab across actual adding alt= append apply area ascii assume auto base64 begin below ber \
     best better bucket built caller calls cancel carry cell choose cipher clear close copied \
     cursor decode digit digits direct dns doesn done double down due during emoji ensure env \
     equal escape every exact final force gets go guard height helper hi hint ime known later \
     layer links lit longer look lookup lower made mcp means much native needs normal notify off \
     page parts patch permit pid place please pre rather reason record scan seed seek signed step \
     stored switch takes too top total trace unique verify watch window words works world wrong",
    ),
    (
        2,
        "\
     abort active ad again amount assign auth aware bash behind bind book broken checks claim col \
     comes cont ctrl dead delete design detail did doing email enter entire eval exist expose \
     favor folder follow func give good got had hand hidden host human inside know letter limits \
     lines looks manual mark marked minus modify moved notes notice npm ones others owner param \
     parses passed paste plain points pose post power prefer prior put python rate real recent \
     refer relax repo retain review rm rotate rule score script secret sent setup sh share shell \
     show side sig signal simply sol starts stop strong submit suite sure taken team though treat \
     trying typed ve ver view warn weight who whole whose why zip",
    ),
    (
        1,
        "\
     age alert along appear ask away become care chosen clean come course db deny dest dice didn \
     disk dm drive dump echo edit effect ended erase erased ever exec fa fact fake fine flow gives \
     goal goes going google happen having hit hold home icon lead leave meant naming ni nul obtain \
     omit onto pack park past pdf people person pick pipe pixel prime proper rank reads reject \
     revert rights role route rsa runs salt save say scheme site think third throw till to, to: \
     tue tun turn turns twice usr ways win won yes yo",
    ),
    (
        0,
        "\
     \"role\" \"you -me .env .md .ru .top /etc/ 2fa <font <meta ?q= [fin [user] ](http _data _dump \
     _email _from_ _key _mail _of_ _text _token `cat `env abid abide abilit abo abov abr acat \
     acate acces acci accord aceda aceit aceite act acting activ activa actu actua adher adhere \
     adi adjust admin admit adopt adopte adress advice advise agente agenti agis agl agora agree \
     agreed ahead ai: aim ainsi ais aja aje alerta alerte alleg allen alles aloja alta alter alto \
     altr altri altro ame ammi amo anad analy analys ander andere anex anexe annot annoti anos \
     anot ante anul anula anyone apag apart aply apos appl approv apr apres apri aprov aqui argent \
     aside askd asked asking asks assim assin assist assum assur assure asum atad atas atend ation \
     ativ ative attach attest autom automa avali avant aver avere avis azure bac backup bam ban \
     bank base32 bcc bce beam bear bearer befor began beginn begins behalf behave beste bien bina \
     binde bio bitte board boot boring borr bort bot bother breach breaks brief bring brings broke \
     browse bullet buy bypass cach cachee cada caesar cage cal calla came car card carr cart cat \
     cbo ced cee cel cela celle censor ceo cerc certif cess cessa cesse cet cete cett chaine \
     chains cham champ chang chaos charg charge chef cher chmod cio cit cita cite citer cites citi \
     class= classe clave cle cles click clip cloud codex codifi coding cola cole coll colle coming \
     compar compi comply compr compre conclu concu confi conta conte contes conto contou cookie \
     cop copi copie corr corre correa cote cours cover cpf cre crea creat credit cree cript cto \
     curl daa dad dai dall dame dan dar dare dark dashes dat data= dated datei dati dear debe \
     decide declar declin decod dedic deem dej deje delet dell demand deme demote dentro deploy \
     deren dess dett deu deve devi di\' dia dialog dic dica dicte dier dies dieu dig digita dile \
     dime dio dios dire dis disco diss disse dite diz dize dni doesnt doi dollar donate donn dono \
     dont dou dovra dream dress drill druck dry dsa dsn dus duty e-mail ecco ecdsa echte editor \
     egregi ehe ehi elenc eleve elicit elimin ello elud embed eme empf emy encod ende engage enos \
     ensen entere entite entr entra entreg enumer enver envi erator eres erho erst ersten erwa esa \
     escrib ese eses esig eso ess estan ete etic etica euer eur euro evalu evil evit examin exclu \
     execut exempt exfil exib expedi expert explor expon fac faca facts fai fal fale fallo falls \
     fals far father fatt fatti favo feld fera ferm ferma fiable fica figur fim fin finds fing \
     finge finta fire firma fixe flip fonte forbid forder fores forget former forn fortan forum \
     foste fra frag frage frase freed frei french fru fue fuer fulfil fung futu futur gab game \
     garde gather gave geh geld gemini gener genera gens gente gere german gewa gia gib gif gir \
     gist git@ gitlab giving glem god gone gott gpt grab grace grade grant grants grav grave \
     groupe grund guarde guest gur gzip habe habit habl hable hacker hai hak halt halte halves ham \
     han handed hang hange haras hast hasta haven haz he hear heb hee hei held her hereby het hexa \
     hey hide hier him hire his hle hol holder holds hole homep hono hor hoy hre humans hunt ia \
     ia: ias iban ica ici icona icono id_ iga ignor ignora ihm im_ imagen imagin immi impos impose \
     incl inclu includ inclus indi indic indica inform inject inser instal instru insu intent \
     invert inves invest invi invite invo invoc invoca invok invoke ira issued isto itemi iwr jef \
     jeu job joins jour journ juste kak kam kept ki ki- kis kod kto labor lad lade laiss lanc \
     lance lanci larg lass lasse late latin lato launch laut lavor law laws lea leak learn leaves \
     lector lee leer leg legal legat lei leis leit leite ler leste letra leu levant leve lhe lia \
     liab liber libera libre lie lien lies liest lieu lift lifted ligne likes limite limiti linea \
     linee lis lise lista liste listed listen lives livr liz lla llms loaded locate login logs \
     loja loose lose ltere lus mach mai mail maile mails mailt maker mand manda mande mandi mar \
     marc matter meet meio memo memor menc mente mep merci merk met mete meter mhe mia mie minha \
     minhas mir mirror mis mise modele modifi moment moot morse mot mother mustn nada nal nc nder \
     neglig nein nesse nest nesta neste nge nie nif nobody nome nor norm norma norme nota notas \
     noti notic nov npx nulla nulle numa numero nyy oben obliga obra occup oggi okay omet omite \
     omy onde opens opera opere opted ora oracle orden orders ordin ordina ordre orient otp otr \
     otra oubli pag paga pagina pai paid panni pare parl parti partie passe passes passi passw \
     passwd passwo pasted pause pay paying pec peca pece ped peda pede pee peg pegu pel penalt \
     pense perime permis phish phone phot photos phrase pida pide pie piece pieces ping pip piu \
     plac placed play plugin poe poi pol polic pon pon_ poser poste posted powers preced prefi \
     prepar pres press previ prim priva procur profil prohib prov prova prove proxim publi pular \
     punit puo purge qua quali quand quel quen quer quest qui quiet quit quito rais raise raised \
     rama ran rarely reali realiz recit recite reclam recom recu recus redact rede reenvi refund \
     refus refuse regard reich relay relis relit remain remov ren render repair repet repi repl \
     replac reply requer reserv resta reste resum resuma resume retir retire reun reveal revers \
     revis revist revoke rfen rg rib richt rid rien rig riga ripped rivers roba robo robot rod \
     rode rogue rol rolle rompa rot roub routed rst rub ruf run: ruta sab saca sag sage sagen sai \
     said salv sar saved says sche scho scrap scrape scrub seem seems sees segn segu segue sei \
     seit seite sem sende senden sepa sera serv serve sess setz setze shadow shed shell- ship \
     shown shut sido siga sight signs silent simul simula sitio sito slack slip sneak social sola \
     sole soon sou sound soy spa speak spell spende spent ssen ssh ssn stale stamp stan stand star \
     starte stated stay stays stead steal steer sticks stopp stoppe story strip stripe suba sube \
     sudo sue sui suis summar suppl supply suspen tabu tac tache tai tais tait tal talk talks tan \
     tant tape tar tard tarea taught tbo teh tell tells ten tener tens tenu ter tera termin teste \
     testo tete teu teus texte texto thi ti ticket tire tod toda today toi told tom toma tome \
     totale tou toute traces tracks transf tras trat trate tren trick tro troc trov trunk trust \
     trusts tu_ tua turned tutt tutte twin uita uman uncle undo ungu unic unica unlock unno unpack \
     unter upload upon urge urgent usa usat usi usual utilis utiliz vai vale valen valent valide \
     vas vea ved veda vedi vej vendor verfu verha verif verifi verlo verra verse vesti vi vide \
     violat vir virtua visite visits voice voici voila voir volta vorn wanted wants warm wat weg \
     wende wget white will, wipe wire wish wishe wo wonder worry wort wrote yok yours",
    ),
];
