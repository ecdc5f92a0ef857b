//! Words of our rules that ordinary text has often, by how often: which step of a branch opens it.
//!
//! Counted as parts of words in the documentation, source and JSON of a thousand packages. A word that is
//! missing is taken for a rare one, which costs time and hides nothing.

/// How often words stand in a megabyte, as parts of others too, as a power of two, and those words.
pub(crate) const PARTS: &[(u32, &str)] = &[
    (13, "//"),
    (12, "::"),
    (11, "## () -- :/ [# :// com http https ing the tio"),
    (
        10,
        "#[ ([ )) ); ]( ]: ](http ](https and ate ati con for github pro ser ter tes",
    ),
    (
        9,
        "!( ), ). )] ** -> .. == [` ]) }, able add all are arg ation che dat der end era ere est fix form from get han hat her his \
         key let name not one par per por rate ring self set sta string this time tra type use \
         value ver with",
    ),
    (
        8,
        "=> ], /! &[ ({ (& act allo any ato aws aws_ ber bin can cat ces change code data date den des dis document \
         ele ese ess example extern forma format has ies implement input ire ist its ity lea les \
         link low mes mit new nge non now num ont option org our out pec pre prov put qui raw \
         read ren return rse sch sche sig sin sing some spa stat sul support tem ten test that \
         ting token tom tre turn ument und uns usi vers version was you",
    ),
    (
        7,
        "![ allow als ando api app bac back badge base blo cache call car cas changed check col \
         compare conte core cript cto de_ debug default dev dit elo enable ende ete field file \
         fin func function genera here hre ich id_ ili inclu inst into issue json late ler lie \
         line log mai mal man may ments nder net ning nul null number off only other own para \
         pare part pas path pin poi point pres provide que rect refer referenc reference rem \
         remov remove require required result rig rre rte run safe sag sage schema script see ses \
         sign son sou stan stati sto sub sue sync sys tan tera term tex text tia try unsafe \
         update used user using var ved vide web when which will work write zero",
    ),
    (
        6,
        "_token action additional alle also ask ativ aus bio block bound break cel cer changes \
         cipher cit client color commit compi compile confi config conta contain content context \
         copy corre count crea create current dar del deve developer dia dir dire direct display \
         does dra drop dsa each else encod entr eso eter ever fai fail fals fica find fine first \
         free full generate hand have hei hor hostname how ici ila image img includ include indi \
         info insert instead invalid know las leve lien like limit lis list load long los lte mag \
         make mark mas mente mer message mis mon names need next none nos note oes old open order \
         output over param parti pass passwo password ped perform ping place play pon pose \
         present print privat private protocol publi public ques quest replac replace repo \
         request rms rot rsa rst sca search second sem send sent serv serve should source start \
         state sur tac tak tal tant than there tokens top true under unic unico url usa valid \
         values vas vent verif void way where window without word your",
    ),
    (
        5,
        "<a abilit about above accept acces access actions adding address after allows alo alt \
         always annot apis argument auth available avo avoid been before bina blob borr bot built \
         cause certificat character chat cken class cle clip close coding colle collect comme \
         comment complet complete consta contains convert custom day decod definition deprecate \
         deprecated description details diagnostic dica different dio dios disable don down draft \
         dre ecdsa ecode edit ein ello emente enabled encode ends env esse esta etc examples \
         exist explicitly extra fac failure fall figur files filter follow following fra \
         functions futur future gets gist give given guard handle header help hey iable ignor \
         ignore indic inform informat information initial ino intern interna internal join just \
         keep keys ki- known language last leg level lia location logo look master matter memo \
         memor memory meta mete mie mio mise mode must named nel nger nom norma nota noti once \
         ono operation optional ora ordin pai parameter pay payload polic policy prefix prim \
         property provided push qual record released report rest rid right rol rule sci secret \
         section security seed select sep sequence server share side signed solve special \
         specifie src stamp stand store sure sus system take task tens termin tests thanks their \
         them then these they through toma tool tools trust tst tua tus unknown unter updated \
         usage uses vai vem verify via view visit wait want warn warning what while would www",
    ),
    (
        4,
        "actua actual alignment aller already alter anot another ante applica apply apr arguments \
         ascii asks assum assume automatically base64 beam bei being between binary binding \
         bucket called calls cancel cannot catch cessa channel characters chat- checks cher clean \
         clear come command compila configuration consider constrain constraint constraints \
         continu continue could cover critical currently dal dan database dati dead decode \
         decrypt definitions determin dice did digit directly director dns doesn done dou due ego \
         encoded ensure enter enumer enumera envi environment eres esig este every exact exec \
         execut existing export expose fact facto fill final force forward found futures got hai \
         hello het hex hint hit hold ias includi including inclus indica initiali instal install \
         instant instru integr integra introduce invo ironment isto ita large lead lee left lies \
         limite lines literal locate longer lookup lower made mail mand maximum messages metadata \
         modifi msg nas nativ native needs never nie notice ola operations ordering ordina \
         origina original page parameters parts pie pipe please post previ previo previous \
         produce provem purpose quali quer query quote ras rather reader real reason registr \
         reject remain replaced replacement requests requirement requires reset respond response \
         revers reverse rgb root rules safety sar sende sepa setting shall shed show simple skip \
         speciali ssig starte strument sua subject submit sui super swap tasks termina terminal \
         those to: toi ton trace track transform una underlying une unless until users vale valen \
         valent valida van verifica verification visitor were whether who width within world \
         written",
    ),
];

/// How often words stand in a megabyte by themselves, as a power of two, and those words.
pub(crate) const WHOLE: &[(u32, &str)] = &[
    (11, "com github https the to"),
    (10, "and const for in is of pub rs rust self this"),
    (
        9,
        "add as be by docs if lang let on or that type use was with",
    ),
    (
        8,
        "added an any are can default error example extern fix from http input io it license \
         method new not now option org os raw result some string support time value version \
         when you",
    ),
    (
        7,
        "all array at badge base build but bytes cache cc changed code compare core data debug \
         developer en field file format function has have img instead into issues key map may \
         mit more name no none null number ok one only other path reference release required \
         return returns schema see set svg sync test true unsafe us used using we web where \
         which will your",
    ),
    (
        6,
        "actions allow also api available aws been bit block byte case change changes ci client \
         commit copy custom date de do does draft each else enabled end examples first flags \
         full functions get given hostname id image implement issue its json level library like \
         link linux log main make mem mio module net next non note num out output parse parser \
         password port pr project protocol read regex remove search should size so source span \
         state status such tests than their then there these they token tokens under up update \
         uses values was what without work write www",
    ),
    (
        5,
        "about above access additional after allows always apis avoid back backend before being \
         between bio blob both branch call cannot catch character chat check collect color \
         comment compile compiler contains content context convert could create current \
         deprecated der description details diagnostic different directly display document don \
         drop due empty enable errors explicitly expression failure files find following found \
         free future generate handle help here how include including information insert \
         internal invalid items just keys language last length line list local longer made \
         master max memory message mod must names need nom optional order our over own part \
         please point policy prefix private property provide provided public push put range re \
         released replace request require requires rsa rt run safe safety section security send \
         shall since src stable start style sys system take task text thanks them unknown \
         unless updated url usage user users utf valid via want way were whether while width \
         works would zero",
    ),
    (
        4,
        "able accept adding address against alignment already another apply argument arguments \
         ascii automatically below binary body bound break built called calling calls cause \
         channel characters checks cipher comments config configuration consider contain \
         continue contributor count cpu critical currently database definitions dev dir disable \
         disabled doesn done dsa during element elements encoded ensure environment etc every \
         existing fail filter form futures global got guard header height hello hex ignore info \
         initial instant int itself join keep kind large later left lib limit links literal \
         load logo long maximum messages metadata mode named needed never ns old once open \
         operation operations ops ordering original parameter pass per pin pipe pre present \
         previous previously query quote rather readme record replaced replacement report \
         repository requests requirements results returning right ring rules script second seed \
         sequence server sign simple small software special store sub super term terminal those \
         through tools top try underlying until upgrade visitor warning warnings wiki within \
         written year",
    ),
];
